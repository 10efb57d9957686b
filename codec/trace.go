package codec

// Tracer is told of every field that a walk reads, in the order of the wire. Where a frame is Anomalous it is told of the fields up
// to the one that could not be read; what was opened is always closed.
type Tracer interface {
	// Field is one value without parts.
	Field(f Field)
	// Open begins an array, one element of it, or a struct, whose parts follow.
	Open(f Field)
	// Close ends what the latest unclosed Open began; end is the byte after it.
	Close(end int)
}

// Field is what a Tracer is told.
type Field struct {
	Name  string // Kafka's name, "_tags" for what belongs to a section of tagged fields; empty for elements of an array
	Index int    // of an element of an array, otherwise -1
	At    int    // first byte, counted from the frame's first
	Len   int    // bytes on the wire, its own length included; of what Open begins, only those that come before its parts
	Depth int    // how many Opens it is inside of
	Type  Type
	Tag   int64 // of an unknown tagged field, otherwise -1
	// Value is an int64 for all integers, a bool, a UUID, or a []byte that points into the frame: of a string (nil is null), of bytes
	// (nil is null), of an array of int8, of an unknown tagged field. It is the int64 number of parts of a
	// CompactArray or TagSection, the int64 tag of a TagHeader, and nil of a Struct.
	Value any

	elem *shape // of a CompactArray
}

// Type is the wire type of a field.
type Type uint8

// The wire types.
const (
	Bool Type = iota
	Int8
	Int16
	Uint16
	Int32
	Int64
	Uuid
	NullableString        // int16 length, -1 is null
	CompactString         // uvarint length + 1
	CompactNullableString // the same, 0 is null
	CompactNullableBytes  // the same, 0 is null
	CompactInt8Array      // uvarint count + 1, one byte each
	CompactArray          // uvarint count + 1, elements
	Struct
	TagSection  // uvarint count; the tagged fields follow at the same depth
	TaggedField // an unknown one: uvarint tag, uvarint size, bytes
	TagHeader   // of a known one: uvarint tag, uvarint size; the field follows under its own name
)

var types = [...]struct {
	name, noun  string
	size, limit int
}{
	Bool:                  {name: "bool", size: 1},
	Int8:                  {name: "int8", size: 1},
	Int16:                 {name: "int16", size: 2},
	Uint16:                {name: "uint16", size: 2},
	Int32:                 {name: "int32", size: 4},
	Int64:                 {name: "int64", size: 8},
	Uuid:                  {name: "uuid", size: 16},
	NullableString:        {name: "nullable string", noun: "string"},
	CompactString:         {name: "compact string", noun: "string", limit: maxStringLen},
	CompactNullableString: {name: "compact nullable string", noun: "string", limit: maxStringLen},
	CompactNullableBytes:  {name: "compact nullable bytes", noun: "bytes", limit: 1<<31 - 1},
	CompactInt8Array:      {name: "compact array of int8", noun: "array", limit: maxElements},
	CompactArray:          {name: "compact array", noun: "array", limit: maxElements},
	Struct:                {name: "struct"},
	TagSection:            {name: "tag section"},
	TaggedField:           {name: "tagged field"},
	TagHeader:             {name: "tag header"},
}

// String is the type's name in a hex dump.
func (t Type) String() string { return types[t].name }

func (t Type) size() int      { return types[t].size }
func (t Type) limit() int     { return types[t].limit }
func (t Type) noun() string   { return types[t].noun }
func (t Type) nullable() bool { return t == CompactNullableString || t == CompactNullableBytes }
