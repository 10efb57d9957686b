package main

import "context"

func soakCommand(_ context.Context, args []string) error  { return nil }
func kafkaCommand(_ context.Context, args []string) error { return nil }
