"""What `gradcheck` is made of: the functions it evaluates, the studies it makes, the causes it looks for, its report."""
