package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set with -ldflags "-X main.version=… -X main.commit=…".
var version, commit string

// kafkaSchema is the Kafka release whose message schemas are read.
const kafkaSchema = "4.4"

type versionInfo struct {
	Version     string `json:"version"`
	Commit      string `json:"commit"`
	KafkaSchema string `json:"kafka_schema"`
	GoVersion   string `json:"go_version"`
}

// readVersion falls back to what the Go tool noted in the binary.
func readVersion() versionInfo {
	v := versionInfo{Version: version, Commit: commit, KafkaSchema: kafkaSchema, GoVersion: runtime.Version()}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		info = &debug.BuildInfo{}
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v.Commit == "" {
			v.Commit = s.Value
		}
	}
	if v.Version == "" {
		v.Version = "unknown"
	}
	if v.Commit == "" {
		v.Commit = "unknown"
	}
	return v
}

func newVersionCmd() *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Version, commit, Kafka schema generation and Go version",
		Example: "  ackproxy version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersion()
			if format == formatJSON {
				return writeJSON(cmd.OutOrStdout(), v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "ackproxy %s\ncommit %s\nkafka schema %s\n%s\n", v.Version, v.Commit, v.KafkaSchema, v.GoVersion)
			return nil
		},
	}
	format.flag(cmd)
	return cmd
}
