import java.util.Scanner;

class Packs {
    public static void main(String[] args) {
        System.out.println(new Scanner(System.in).nextInt() / 5);
    }
}
