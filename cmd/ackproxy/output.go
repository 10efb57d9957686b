package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// outputFormat is the value of -o. It implements pflag.Value.
type outputFormat string

const (
	formatText outputFormat = "text"
	formatJSON outputFormat = "json"
)

// String is the format as -o spells it.
func (f *outputFormat) String() string { return string(*f) }

// Type is what -h shows in place of a value.
func (f *outputFormat) Type() string { return "text|json" }

// Set takes what follows -o.
func (f *outputFormat) Set(s string) error {
	if v := outputFormat(s); v == formatText || v == formatJSON {
		*f = v
		return nil
	}
	return fmt.Errorf("write text or json")
}

func (f *outputFormat) flag(cmd *cobra.Command) {
	*f = formatText
	cmd.Flags().VarP(f, "output", "o", "form of the output")
}

// writeJSON writes v on one line, as it is: no escapes for HTML.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return failed(err)
	}
	return nil
}
