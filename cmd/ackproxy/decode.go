package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/capture"
	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/codec"
)

// decodeOptions are the flags of decode.
type decodeOptions struct {
	hex                string
	request, response  bool
	apiKey, apiVersion int16
	txnKey             int16
	payloads           bool
	format             outputFormat
}

func newDecodeCmd() *cobra.Command {
	var o decodeOptions
	cmd := &cobra.Command{
		Use:   "decode [FILE|-]",
		Short: "Show what is in Kafka frames, byte by byte",
		Long: `Decode frames of the share-group APIs: ShareFetch, ShareAcknowledge, AddRaftVoter and TxnShareAcknowledge. Of other APIs the header is
shown. The input is a file or standard input: a capture (pcap, pcapng), text that is all hex, base64, or raw frames, whichever it is
first. Frames begin with their size and follow one another; they are requests unless --response is given. In a capture both directions
are read, and joined by correlation id.

A frame is exact, tolerated (a broker serves it although it does not encode back to the same bytes), anomalous (a broker closes the
connection) or opaque (not ours to decode). Exit status: 1 if any frame is anomalous. SASL bytes are never shown.`,
		Example: `  ackproxy decode --hex 0000001c004f00010000000700056170702d31036731036d31ffffffff0100
  ackproxy decode --response --api-key 79 --api-version 2 answer.bin
  tcpdump -i any -w - port 9092 | ackproxy decode -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd, args); err != nil {
				return err
			}
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.hex, "hex", "", "the frames themselves, as `HEX`")
	f.BoolVar(&o.request, "request", false, "the frames are requests (default)")
	f.BoolVar(&o.response, "response", false, "the frames are responses; they do not say to what, so --api-key and --api-version must")
	f.Int16Var(&o.apiKey, "api-key", 0, "`KEY` of the request that a response answers")
	f.Int16Var(&o.apiVersion, "api-version", 0, "`VERSION` of the request that a response answers")
	f.Int16Var(&o.txnKey, "txn-api-key", 0, "`KEY` of TxnShareAcknowledge (KIP-1289), which no release has yet; 80 is AddRaftVoter unless given here")
	f.BoolVar(&o.payloads, "payloads", false, "show the bytes of records")
	o.format.flag(cmd)
	return cmd
}

func (o *decodeOptions) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	switch {
	case o.request && o.response:
		return misused("--request and --response exclude each other")
	case o.response && !(given("api-key") && given("api-version")):
		return misused("a response does not say what it answers: add --api-key and --api-version")
	case !o.response && (given("api-key") || given("api-version")):
		return misused("--api-key and --api-version belong to --response: a request says both itself")
	case given("hex") && len(args) > 0:
		return misused("--hex and a file exclude each other")
	}
	if given("txn-api-key") {
		var k config.APIKey
		if err := k.UnmarshalText(fmt.Append(nil, o.txnKey)); err != nil {
			return misused("--txn-api-key: %w", err)
		}
	}
	return nil
}

func (o *decodeOptions) run(cmd *cobra.Command, args []string) error {
	in := cmd.InOrStdin()
	switch {
	case cmd.Flags().Changed("hex"):
		b, err := hex.DecodeString(string(withoutSpace([]byte(o.hex))))
		if err != nil || len(b) == 0 {
			return misused("--hex: not whole bytes of hex digits")
		}
		in = bytes.NewReader([]byte(hex.EncodeToString(b)))
	case len(args) > 0 && args[0] != "-":
		f, err := os.Open(args[0])
		if err != nil {
			return failed(err)
		}
		defer f.Close()
		in = f
	}
	d := newDecoder(o, cmd.OutOrStdout())
	err := d.decode(bufio.NewReaderSize(in, 1<<16))
	if flushErr := d.out.Flush(); err == nil && flushErr != nil {
		err = failed(flushErr)
	}
	if err == nil && d.anomalous > 0 {
		err = &exit{status: statusNo}
	}
	return err
}

// decoder turns input into objects and prints them.
type decoder struct {
	options   *decodeOptions
	out       *bufio.Writer
	printed   int
	anomalous int
	live      bool // the input may be a pipe that goes on: each frame is seen when it is decoded
}

func newDecoder(o *decodeOptions, out io.Writer) *decoder {
	return &decoder{options: o, out: bufio.NewWriterSize(out, 1<<16)}
}

func (d *decoder) decode(in *bufio.Reader) error {
	if head, _ := in.Peek(4); capture.IsCapture(head) {
		if d.options.request || d.options.response {
			return misused("a capture has both directions: leave --request, --response and what goes with them out")
		}
		d.live = true
		return d.capture(in)
	}
	all, err := io.ReadAll(in)
	if err != nil {
		return failed(err)
	}
	raw, err := unpack(all)
	if err != nil {
		return failed(err)
	}
	return d.frames(raw)
}

// frames decodes frames of one direction that follow one another.
func (d *decoder) frames(raw []byte) error {
	s := newSession(d.options.txnKey)
	s.fixed = &asked{key: d.options.apiKey, version: d.options.apiVersion, txnKey: d.options.txnKey}
	kind := codec.Request
	if d.options.response {
		kind = codec.Response
	}
	var split splitter
	split.push(raw)
	for p := range split.finish() {
		if err := d.print(s.inspect(kind, p)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) print(o object) error {
	d.printed++
	if o.Outcome == codec.Anomalous {
		d.anomalous++
	}
	if d.options.format == formatJSON {
		d.out.Write(o.json(d.options.payloads))
	} else {
		textPrinter{out: d.out, object: &o, payloads: d.options.payloads}.print(d.printed)
	}
	if d.live {
		if err := d.out.Flush(); err != nil {
			return failed(err)
		}
	}
	return nil
}
