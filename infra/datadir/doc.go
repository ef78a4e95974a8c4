// Package datadir is the folder that a gatebook lives in: its path, its lock, its
// small files, and the copy of the book's store that a start works beside.
//
// Start with [Open]; an engine then takes the lock with [Dir.Lock], before it
// opens anything in the folder. Commands that only read need no lock.
//
// What the package promises:
//
//   - The path is made absolute and its links are followed once, in Open. Another
//     working folder later changes nothing.
//   - The folder is the owner's alone (mode 0700), or Open refuses it and says
//     what to do.
//   - Two engines never have the lock at the same time on one machine. It ends
//     with the process, however that ends. Whether the volume is a temporary or a
//     network one is not checked.
//   - A small file is replaced as a whole: after a crash it has the old bytes or
//     the new ones, and after a nil error the new ones are on the disk.
//   - The store that [Dir.GuardBook] copied is there again, byte for byte, after a
//     start that was refused or died.
//
// Dependencies: x/sys for flock, free space and real blocks; x/mod for the hash
// type of the tree; go-json-experiment/json for strictness.
package datadir
