"""What a recommender does in a request: send a list's candidates to the server, show them in its order."""

import json
import sys
from urllib.request import Request, urlopen

import pyarrow.dataset as ds

url, log, query = sys.argv[1:]
rows = ds.dataset(log).to_table(filter=ds.field("query") == int(query))
columns = {"ids": "item", "scores": "score", "groups": "group"}
body = {"key": int(query)} | {name: rows[column].to_pylist() for name, column in columns.items()}
request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
with urlopen(request) as response:
    answer = json.load(response)
top = answer["order"][:12]
print("groups of the first 12, as logged: ", *body["groups"][:12])
print("groups of the first 12, as served: ", *(body["groups"][place] for place in top))
print("model", answer["model"], "gives the first one", answer["scores"][top[0]])
