module weir/story

go 1.19
