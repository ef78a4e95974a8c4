package projections

// SmallMemo is a memory that forgets soon.
func SmallMemo(n int) *Memo {
	m := NewMemo()
	m.most = bounds{rows: n, rounds: n, keys: n, hour: n}
	return m
}
