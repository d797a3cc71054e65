with open("gauge.in") as source, open("gauge.out", "w") as target:
    print(min(map(int, source.read().split())), file=target)
