#!/usr/bin/env bash
# From a log to a served model. Runs in an empty folder that holds a copy of `examples`; the tutorial on the
# documentation site shows these commands with what they print here.
set -euo pipefail

run() {
  printf '$ %s\n' "$1"
  eval "$1" 2>&1
}
server=
trap '[ -z "$server" ] || kill "$server"' EXIT

run 'evenodds audit examples/impressions.parquet'
run 'evenodds tally examples/impressions.parquet -o monday.tally'
run 'evenodds simulate -o tuesday.parquet --queries 1000 --seed 2'
run 'evenodds tally tuesday.parquet -o tuesday.tally --grid-from monday.tally'
run 'evenodds fit monday.tally tuesday.tally -o model.json --report report.html'
run 'evenodds simulate -o wednesday.parquet --queries 1000 --seed 5'
run 'evenodds audit wednesday.parquet --model model.json'
run 'evenodds audit wednesday.parquet --model model.json --fail-above 0.05 > /dev/null || echo "exit code $?"'
run 'evenodds forecast model.json wednesday.parquet'
run 'evenodds apply model.json wednesday.parquet -o fair.parquet'

printf '$ %s\n' 'evenodds serve model.json --port 18731 --log none > serve.log &'
evenodds serve model.json --port 18731 --log none >serve.log 2>&1 &
server=$!
for _ in $(seq 200); do
  python -c 'import urllib.request as r; r.urlopen("http://127.0.0.1:18731/readyz")' 2>/dev/null && break
  sleep 0.1
done

run 'python examples/tutorial/ask.py http://127.0.0.1:18731/rerank wednesday.parquet 7'
