#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

int main() {
    std::string s;
    std::cin >> s;
    int n = s.size();
    long long total = 0;
    for (int even = 0; even < 2; ++even) {
        std::vector<int> radius(n);
        for (int i = 0, left = 0, right = -1; i < n; ++i) {
            int r = i > right ? 1 - even : std::min(radius[left + right - i + even], right - i + 1);
            while (i - r - even >= 0 && i + r < n && s[i - r - even] == s[i + r]) ++r;
            radius[i] = r;
            total += r;
            if (i + r - 1 > right) left = i - r + 1 - even, right = i + r - 1;
        }
    }
    std::cout << total << "\n";
}
