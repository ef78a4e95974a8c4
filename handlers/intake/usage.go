package intake

import (
	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/strictjson"
	"gatebook/policy"
	"gatebook/policy/usage"
)

// decodeUsage fills in the report, which says already who reports.
func (i *Intake) decodeUsage(report usage.Report, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	fields, handle, bad := readUsage(&report, data)
	if bad != nil {
		return nil, bad
	}
	round, noRound := ulidField[events.RoundID]("round", fields.Round)
	bad = firstFault(noRound, short("message", fields.Message, events.MaxName), short("model", fields.Model, events.MaxName),
		i.noSecret("message", fields.Message, handle))
	if fields.Message == "" {
		bad = firstFault(bad, &policy.Malformed{Field: "message", Reason: "missing"})
	}
	if bad != nil {
		return nil, bad
	}
	report.Round, report.Message, report.Model = round, fields.Message, i.foreign(fields.Model, events.MaxName)
	report.Tokens = events.Tokens{
		Input: fields.Input, CachedInput: fields.CachedInput, CacheWrite: fields.CacheWrite, Output: fields.Output,
	}
	return &engine.RecordUsage{Report: report, Answer: answer}, nil
}

// readUsage decodes a report in the form of who reports: an agent shows its handle, a
// channel the hash that it began the round with.
func readUsage(report *usage.Report, data []byte) (fields usageReport, handle string, bad *policy.Malformed) {
	if report.Channel == "" {
		var r usageRequest
		if bad = strictjson.Decode(data, &r); bad == nil {
			report.HandleHash, bad = handleHash(r.Handle)
		}
		return r.usageReport, r.Handle, bad
	}
	var r channelUsageRequest
	if bad = strictjson.Decode(data, &r); bad == nil {
		report.HandleHash, bad = digestField("handle_hash", r.HandleHash)
	}
	return r.usageReport, "", bad
}
