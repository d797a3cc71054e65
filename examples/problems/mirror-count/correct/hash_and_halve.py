import sys

MOD = (1 << 61) - 1
BASE = 911382323


def main():
    s = sys.stdin.read().split()[0]
    n = len(s)
    power = [1] * (n + 1)
    fore, back = [0] * (n + 1), [0] * (n + 1)
    for i in range(n):
        power[i + 1] = power[i] * BASE % MOD
        fore[i + 1] = (fore[i] * BASE + ord(s[i])) % MOD
        back[i + 1] = (back[i] * BASE + ord(s[n - 1 - i])) % MOD

    def same(i, j):
        size = j - i
        a = (fore[j] - fore[i] * power[size]) % MOD
        b = (back[n - i] - back[n - j] * power[size]) % MOD
        return a == b

    total = 0
    for centre in range(2 * n - 1):
        left = centre // 2
        right = left + centre % 2
        low, high = 0, min(left + 1, n - right)
        while low < high:
            mid = (low + high + 1) // 2
            if same(left - mid + 1, right + mid):
                low = mid
            else:
                high = mid - 1
        total += low
    print(total)


main()
