package main

import "context"

func compareCommand(_ context.Context, args []string) error { return compareReports(args) }
