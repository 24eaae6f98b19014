"""Where rows become counts. One function counts; the engines differ in where it runs."""
