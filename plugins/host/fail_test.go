package host

func serveAsHost() {}
