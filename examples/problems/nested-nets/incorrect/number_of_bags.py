print(input().count("("))
