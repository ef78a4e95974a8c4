package workspace

// Every bound of the file tools in one place. Sizes are bytes.
const (
	// MaxContent is the most that one call writes or reads.
	MaxContent = 512 << 10
	// DefaultRead is what a read gives when it does not say.
	DefaultRead = 64 << 10
	// MaxEntries is how many entries one listing of a folder holds.
	MaxEntries = 10_000
	// MaxTrash is how many entries one listing of the trash holds.
	MaxTrash = 1_000
	// MaxListing is the size of the entries of one listing; with it the whole
	// answer stays under the 768 KiB that an answer may have.
	MaxListing = 640 << 10
	// MaxDescription is the size of the file that describes a trash entry. A
	// path of 4096 bytes fits however it is escaped.
	MaxDescription = 32 << 10
	// MaxNames is how many names are tried to find a free one.
	MaxNames = 100

	folderMode = 0o700
	fileMode   = 0o600
)
