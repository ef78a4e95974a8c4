package main

import (
	"context"
	"errors"
	"os"
	"time"

	"gatebook/scripts/harness"
)

// measure fills the report, row after row.
func (b *bench) measure(ctx context.Context) (report, error) {
	var err error
	b.report.Options = reportOptions{Runs: b.opt.runs, Window: b.opt.window().Milliseconds(), Keys: b.opt.keys}
	if b.report.Machine, err = machineFacts(b.dir); err != nil {
		return b.report, err
	}
	if b.opt.wants("binary") {
		if err := b.binarySize(); err != nil {
			return b.report, err
		}
	}
	if b.opt.wants("page-people") {
		if err := b.lists(); err != nil {
			return b.report, err
		}
	}
	if b.opt.wants(append([]string{"calls-256", "call-1", "calls-approved", "calls-blocked", "rebuild", "memory"}, bigRows...)...) {
		err = b.engines(ctx)
	}
	return b.report, err
}

func (b *bench) engines(ctx context.Context) error {
	disk, err := openDisk(b.dir)
	if err != nil {
		return err
	}
	defer disk.close()
	b.note("making a data folder with %d agents", agents)
	if b.folder, err = b.makeTemplate(ctx); err != nil {
		return err
	}
	if b.opt.wants("call-1") {
		if err := b.call1(ctx, disk); err != nil {
			return err
		}
	}
	if b.opt.wants("calls-approved") {
		if err := b.callsApproved(ctx); err != nil {
			return err
		}
	}
	if b.opt.wants("calls-blocked") {
		if err := b.callsBlocked(ctx); err != nil {
			return err
		}
	}
	if b.opt.wants("calls-256", "rebuild", "memory") {
		folder, err := b.calls256(ctx, disk)
		if err == nil && b.opt.wants("rebuild") {
			err = b.rebuild(ctx, folder)
		}
		if err != nil {
			return err
		}
	}
	if b.opt.wants(bigRows...) {
		return b.big(ctx)
	}
	return nil
}

func (b *bench) binarySize() error {
	info, err := os.Stat(b.binary)
	if err == nil {
		b.report.add(row{Name: "binary", Unit: "KiB", Better: lower, Runs: []int64{info.Size() >> 10}})
	}
	return err
}

// call1 is what one agent waits for one call, beside what the same client waits
// for one fsynced publish over the same kind of connection, and beside one that
// does not leave its process.
func (b *bench) call1(ctx context.Context, disk *disk) (err error) {
	e, c, err := b.start(ctx, "call-1", 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close(), e.Stop()) }()
	far, err := openRemote(ctx, b.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	call := row{Name: "call-1", Unit: "us", Better: lower, Details: map[string]int64{}}
	var publish, inside []int64
	var all []time.Duration
	if _, err := c.load(ctx, b.opt.warm(), b.opt.window()); err != nil {
		return err
	}
	for i := range b.opt.runs {
		near, err := disk.publish(ctx, b.opt.window()/6)
		if err != nil {
			return err
		}
		one, err := far.publish(b.opt.window() / 6)
		if err != nil {
			return err
		}
		got, err := c.load(ctx, b.opt.warm(), b.opt.window())
		if err != nil {
			return err
		}
		all = append(all, got.latency...)
		publish, inside = append(publish, one), append(inside, near)
		call.Runs = append(call.Runs, micros(harness.Quantile(got.latency, 50)))
		b.note("call-1, run %d: p50 %d us, one fsynced publish %d us, inside one process %d us", i+1, call.Runs[i], one, near)
	}
	for _, p := range []int{95, 99} {
		call.Details[percentile(p)] = micros(harness.Quantile(all, p))
	}
	call.beside("fsync-publish", "us", publish)
	call.Details["percent_of_publish_inside"] = median(ratios(call.Runs, inside))
	call.target("p50 at most 4 times one fsynced publish of the same client", call.Ratio <= 4)
	b.report.add(call)
	b.report.add(row{Name: "fsync-publish", Unit: "us", Better: lower, Runs: publish})
	b.report.add(row{Name: "fsync-publish-inside", Unit: "us", Better: lower, Runs: inside})
	return nil
}

// calls256 is how many calls 256 agents get through, beside the same engine
// with one fsync for each event. It gives the folder of the former.
func (b *bench) calls256(ctx context.Context, disk *disk) (folder string, err error) {
	var more []string
	if b.opt.cpuProfile != "" {
		more = append(more, "--cpuprofile", b.opt.cpuProfile)
	}
	grouped, crew, err := b.start(ctx, "calls-256", agents, more...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, crew.close(), grouped.Stop()) }()
	var alone *contest
	if b.opt.wants("calls-256") {
		if alone, err = b.contest(ctx, "calls-256-singles", "--one-fsync-per-event"); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, alone.close()) }()
	}
	if err := b.takeTurns(ctx, &contest{engine: grouped, crew: crew}, alone, disk); err != nil {
		return "", err
	}
	if b.opt.wants("memory") {
		b.memory(grouped)
	}
	return grouped.Folder, nil
}

// contest is an engine with its load.
type contest struct {
	engine *harness.Engine
	crew   *crew
	calls  int64         // that were answered
	used   time.Duration // processor time of the engine for them
}

func (b *bench) contest(ctx context.Context, name string, more ...string) (*contest, error) {
	e, c, err := b.start(ctx, name, agents, more...)
	return &contest{engine: e, crew: c}, err
}

func (c *contest) close() error { return errors.Join(c.crew.close(), c.engine.Stop()) }

// load loads the engine and notes the processor time that it used.
func (c *contest) load(ctx context.Context, opt options) (sample, error) {
	calls, used := c.crew.answered.Load(), c.engine.Processor()
	s, err := c.crew.load(ctx, opt.warm(), opt.window())
	c.calls += c.crew.answered.Load() - calls
	c.used += c.engine.Processor() - used
	return s, err
}

// takeTurns measures together, and alone where there is one, in turn.
func (b *bench) takeTurns(ctx context.Context, together, alone *contest, disk *disk) error {
	calls := row{Name: "calls-256", Unit: "calls/s", Better: higher, Details: map[string]int64{}}
	singles := row{Name: "calls-256-singles", Unit: "calls/s", Better: higher}
	var latency []time.Duration
	var publish []int64
	for i := range b.opt.runs + 1 {
		one, err := disk.publish(ctx, b.opt.window()/6)
		if err != nil {
			return err
		}
		got, err := together.load(ctx, b.opt)
		if err != nil {
			return err
		}
		var slow sample
		if alone != nil {
			if slow, err = alone.load(ctx, b.opt); err != nil {
				return err
			}
		}
		if i == 0 {
			continue // to get warm
		}
		calls.Runs, singles.Runs = append(calls.Runs, got.rate()), append(singles.Runs, slow.rate())
		latency = append(latency, got.latency...)
		publish = append(publish, one)
		b.note("calls-256, run %d: %d calls/s; one fsync for each event %d calls/s; one fsynced publish %d us", i, got.rate(), slow.rate(), one)
	}
	b.report.events = 2 * together.calls
	calls.Details["fsync_publish_us"] = median(publish)
	calls.Details["cpu_us_per_call"] = micros(together.used) / max(1, together.calls)
	for _, p := range []int{50, 99} {
		calls.Details[percentile(p)] = micros(harness.Quantile(latency, p))
	}
	if alone == nil {
		return nil
	}
	calls.beside(singles.Name, singles.Unit, singles.Runs)
	calls.target("at least 5,000 calls/s", median(calls.Runs) >= 5000)
	calls.target("at least 2.5 times one fsync for each event", calls.Ratio >= 2.5)
	b.report.add(calls)
	b.report.add(singles)
	return nil
}

// callsApproved is how many calls of a privileged tool that a person approved 256 agents
// get through, beside calls of one that only reads, by the same agents in turn.
func (b *bench) callsApproved(ctx context.Context) (err error) {
	one, err := b.contest(ctx, "calls-approved")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.close()) }()
	if err := b.approve(ctx, one.engine); err != nil {
		return err
	}
	approved := row{Name: "calls-approved", Unit: "calls/s", Better: higher, Details: map[string]int64{}}
	var reading []int64
	var used [2]time.Duration
	var calls [2]int64
	for i := range b.opt.runs + 1 {
		var rates [2]int64
		for n, name := range [...]string{tool, privileged} {
			one.crew.calling(name)
			before, was := one.calls, one.used
			got, err := one.load(ctx, b.opt)
			if err != nil {
				return err
			}
			rates[n] = got.rate()
			calls[n], used[n] = calls[n]+one.calls-before, used[n]+one.used-was
		}
		if i == 0 {
			continue // to get warm
		}
		reading, approved.Runs = append(reading, rates[0]), append(approved.Runs, rates[1])
		b.note("calls-approved, run %d: %d calls/s; of a tool that only reads %d calls/s", i, rates[1], rates[0])
	}
	for n, name := range [...]string{"cpu_us_per_reading_call", "cpu_us_per_call"} {
		approved.Details[name] = micros(used[n]) / max(1, calls[n])
	}
	approved.beside("calls-reading", "calls/s", reading)
	approved.target("costs at most 20% more than one that only reads", approved.Ratio >= 1/1.2)
	b.report.add(approved)
	return nil
}

// memory is what the engine holds right after the load.
func (b *bench) memory(e *harness.Engine) {
	now, most, err := e.Resident()
	if err != nil {
		b.note("memory: %v", err)
		return
	}
	b.report.add(row{Name: "memory", Unit: "KiB", Better: lower, Runs: []int64{now}, Details: map[string]int64{"most_kib": most}})
}
