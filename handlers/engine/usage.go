package engine

import (
	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/usage"
	"gatebook/projections"
)

// RecordUsage is a report of an agent or a channel on what a message of a model used.
type RecordUsage struct {
	Report usage.Report
	Answer Answer
}

func (*RecordUsage) intent() bool { return true }

func (u *RecordUsage) about() events.AgentID { return u.Report.Agent }

func (u *RecordUsage) refuse(code, reason string) { u.Answer.send(refused(code, reason)) }

func (u *RecordUsage) decide(e *Engine, c *cycle) (plan, error) {
	round, _, err := projections.RoundByID(c.tx, u.Report.Round)
	if err != nil {
		return plan{}, err
	}
	same, f, err := usageFacts(c.tx, round, u.Report.Message)
	if err != nil {
		return plan{}, err
	}
	if f.Secret, err = holdsHandle(c.tx, u.Report.Message); err != nil {
		return plan{}, err
	}
	d := usage.Record(c.catalog, u.Report, f, c.now)
	who, account := asker(u.Report.Channel, u.Report.Agent)
	if no := d.Refusal; no != nil {
		p := reach(who, account, "usage", string(u.Report.Round), *no, u.Answer)
		if no.Code != policy.CodeNoRound { // a fault, and no reach for what is not theirs
			e.countRefusal(u, string(no.Code))
			p.facts = nil
		}
		return p, nil
	}
	p := plan{agent: round.Agent, actor: who}
	if d.Usage == nil {
		p.release = func(events.Record) { u.Answer.send(repeated(same)) }
		return p, nil
	}
	p.facts = []events.Event{*d.Usage}
	p.release = func(at events.Record) { u.Answer.send(usageAnswer(*d.Usage, at.Seq)) }
	return p, nil
}

func usageFacts(r projections.Reader, round projections.RoundRow, message string) (same projections.UsageRow, f usage.Facts, err error) {
	f = usage.Facts{Round: roundFacts(round), Model: round.Model.Name}
	if round.Round == "" {
		return same, f, nil
	}
	receipt, _, err := projections.ReceiptByRound(r, round.Round)
	if err != nil {
		return same, f, err
	}
	f.Messages = receipt.Messages()
	same, found, err := projections.UsageOf(r, round.Agent, message)
	if err != nil || !found {
		return same, f, err
	}
	first, _, err := projections.RoundByID(r, same.Round)
	f.Same = usage.Recorded{
		Round: same.Round, Ended: first.Ended, Channel: first.Channel, Model: same.Model, Tokens: same.Tokens(), Source: same.Source,
	}
	return same, f, err
}

func usageAnswer(e events.UsageRecorded, at events.Seq) UsageAnswer {
	return UsageAnswer{Round: e.Round, Message: e.Message, Model: e.Model, Cost: e.Cost, Currency: e.Currency, Seq: at}
}

// repeated is the answer to a report that is recorded already.
func repeated(row projections.UsageRow) UsageAnswer {
	return UsageAnswer{
		Round: row.Round, Message: row.Message, Model: row.Model, Cost: row.Charged(), Currency: row.Currency,
		Seq: row.Last, Repeated: true,
	}
}
