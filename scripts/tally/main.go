// Command tally reads what "go test -json" says and closes it in a form that
// hides nothing: what failed with its output, what was skipped with the reason,
// and how many tests there were.
//
// Start with [Tally]. Failures go to standard error as they happen; go test's
// own line for each package, the skipped tests and the count go to standard
// output at the end:
//
//	go test -race -json ./... | go run ./scripts/tally -no-skips
//
// What the package promises: it exits with 1 where a test or package failed,
// where no test ran, and, with -no-skips, where one was skipped. Its one
// dependency is the JSON decoder that the project uses everywhere.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	noSkips := flag.Bool("no-skips", false, "a skipped test is a failure")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, os.Stderr, *noSkips)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run says whether all is well.
func run(in io.Reader, out, failures io.Writer, noSkips bool) (bool, error) {
	t := NewTally(failures)
	if err := t.Read(in); err != nil {
		return false, err
	}
	return t.Close(out, noSkips)
}
