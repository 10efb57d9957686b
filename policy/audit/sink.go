package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// The types of Sink.
const (
	Stdout = "stdout"
	File   = "file"
	None   = "none"
	Writer = "writer"
)

// Sink says where lines go.
type Sink struct {
	Type string    // Stdout, File, Writer, or None: no lines, only metrics
	Path string    // of a File: appended to, created with mode 0640
	W    io.Writer // of a Writer, for tests and for the demo: given whole lines, one call at a time; never closed
}

// String is the form that ParseSink reads.
func (s Sink) String() string {
	if s.Type == File {
		return File + ":" + s.Path
	}
	return s.Type
}

// ParseSink reads "stdout", "file:PATH" or "none".
func ParseSink(s string) (Sink, error) {
	typ, path, hasPath := strings.Cut(s, ":")
	switch {
	case typ == File && path != "":
		return Sink{Type: File, Path: path}, nil
	case typ == File:
		return Sink{}, fmt.Errorf("audit sink %q: the path is missing (write file:PATH)", s)
	case !hasPath && (typ == Stdout || typ == None):
		return Sink{Type: typ}, nil
	}
	return Sink{}, fmt.Errorf("audit sink %q: not a sink (write stdout, file:PATH or none)", s)
}

// CheckSinks says all that is wrong with sinks that are to be used together, without opening any: one path or standard output twice, none beside
// others, what is incomplete.
func CheckSinks(sinks []Sink) error {
	var errs []error
	seen := make(map[string]bool)
	for _, s := range sinks {
		key := s.Type
		switch s.Type {
		case None:
			if len(sinks) > 1 {
				errs = append(errs, errors.New("audit sink none: stands beside other sinks (write it alone)"))
			}
			continue
		case Stdout:
		case File:
			path, err := filepath.Abs(s.Path)
			if s.Path == "" || err != nil {
				errs = append(errs, errors.New("audit sink file: the path is missing"))
				continue
			}
			key = path
		case Writer:
			if s.W == nil {
				errs = append(errs, errors.New("audit sink writer: has no writer"))
			}
			continue
		default:
			errs = append(errs, fmt.Errorf("audit sink %q: not a sink (stdout, file or none)", s.Type))
			continue
		}
		if seen[key] {
			errs = append(errs, fmt.Errorf("audit sink %s: two writers to one place", s))
		}
		seen[key] = true
	}
	return errors.Join(errs...)
}

// claims are the files that auditors of this process write to: two writers would mix two streams in one file.
var claims struct {
	sync.Mutex
	files []os.FileInfo
}

// claim refuses a file or pipe that is written to already, by whatever name. Terminals and /dev/null are nobody's.
func claim(f *os.File) (release func(), err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeCharDevice != 0 {
		return func() {}, nil
	}
	claims.Lock()
	defer claims.Unlock()
	for _, other := range claims.files {
		if os.SameFile(info, other) {
			return nil, errors.New("two writers to one file")
		}
	}
	claims.files = append(claims.files, info)
	return func() { unclaim(info) }, nil
}

func unclaim(info os.FileInfo) {
	claims.Lock()
	defer claims.Unlock()
	for i, other := range claims.files {
		if os.SameFile(info, other) {
			claims.files = append(claims.files[:i], claims.files[i+1:]...)
			return
		}
	}
}

// openSink opens what s names. The caller closes it.
func openSink(s Sink) (*output, error) {
	out := &output{name: s.String(), close: func() error { return nil }}
	switch s.Type {
	case Writer:
		out.w = s.W
	case File:
		f, err := openFile(s.Path)
		if err != nil {
			return nil, fmt.Errorf("audit sink %s: %w", s, err)
		}
		out.w, out.file, out.close = f, f, f.Close
		out.mend()
	case Stdout:
		release, err := claim(os.Stdout)
		if err != nil {
			return nil, fmt.Errorf("audit sink %s: %w", s, err)
		}
		out.w, out.close = os.Stdout, sync.OnceValue(func() error { release(); return nil })
	}
	return out, nil
}
