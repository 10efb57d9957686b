// Package proc looks at other processes: their CPU time, memory, descriptors and system calls; and at the machine.
package proc

// Machine says what the figures were measured on.
type Machine struct {
	Processor   string `json:"processor"`
	Processors  int    `json:"processors"`
	MemoryMiB   int    `json:"memory_mib"`
	Kernel      string `json:"kernel"`
	System      string `json:"system"`
	ClockSource string `json:"clock_source"`
	LoadBefore  string `json:"load_before"` // load averages of 1, 5 and 15 minutes when the run began
}
