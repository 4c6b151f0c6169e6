"""What `gradcheck` is made of: the functions it evaluates, its studies of single slopes, causes, and its report."""
