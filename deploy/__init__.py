"""What is built from the program: executable, package, image, pages of the manual."""
