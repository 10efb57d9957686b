package codec

import "fmt"

// care is what a careful walk keeps beside the fields: where it is, what was wrong first, and who is told.
type care struct {
	at      int     // where the walked bytes begin in the frame
	path    []level // the arrays and structs that are open
	depth   int     // opened for the tracer and not closed
	outcome Outcome
	problem *Problem
	tracer  Tracer
}

// level is one name of a path.
type level struct {
	name  string
	index int // of the element; -1 outside an element
}

// note keeps a problem when it is the first of its kind, and the one that brokers do not take rather than the ones that they do.
func (c *care) note(o Outcome, name string, at int, format string, args []int) {
	if o <= c.outcome {
		return
	}
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
	}
	c.outcome = o
	c.problem = &Problem{Reason: fmt.Sprintf(format, list...), At: c.at + at, Field: c.where(name)}
}

// where is the path of a field: "Topics[0].Partitions[1].PartitionIndex". Elements have no names of their own.
func (c *care) where(name string) string {
	path := ""
	for _, l := range c.path {
		path = join(path, l.name)
		if l.index >= 0 {
			path += fmt.Sprintf("[%d]", l.index)
		}
	}
	return join(path, name)
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// value tells the tracer of a field that ends before byte end of the walked bytes; f.At counts from their first.
func (c *care) value(f Field, end int) {
	f.Len = end - f.At
	c.tracer.Field(c.placed(f))
}

// open tells the tracer of a field whose parts follow. It is told of the end by close.
func (c *care) open(f Field) {
	c.tracer.Open(c.placed(f))
	c.depth++
}

func (c *care) close(end int) {
	c.depth--
	c.tracer.Close(c.at + end)
}

func (c *care) placed(f Field) Field {
	f.At += c.at
	f.Depth = c.depth
	f.Index = -1
	if n := len(c.path); n > 0 && f.Name == "" {
		f.Index = c.path[n-1].index
	}
	if f.Type != TaggedField {
		f.Tag = -1
	}
	return f
}

// enter and leave enclose the fields of a struct that is not an element of an array. Nothing is entered once the walk has stopped.
func (w *walker) enter(name string) bool {
	if w.care != nil && !w.stopped {
		w.openField(Field{Name: name, At: w.pos, Type: Struct})
		w.care.path = append(w.care.path, level{name: name, index: -1})
	}
	return !w.stopped
}

func (w *walker) leave() {
	if w.care == nil {
		return
	}
	w.care.path = w.care.path[:len(w.care.path)-1]
	w.closeField()
}

func (w *walker) openField(f Field) {
	if w.care.tracer != nil {
		w.care.open(f)
	}
}

func (w *walker) closeField() {
	if w.care.tracer != nil {
		w.care.close(w.pos)
	}
}

func (w *walker) tracing() bool { return w.care != nil && w.care.tracer != nil && !w.stopped }
