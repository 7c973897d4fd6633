import type { LoopEvent } from '@toolloop/core';
import type { AuditEntry, Pending } from '@toolloop/core/stores';
import { snapshot, Steadier } from '../traces/steady.js';
import type { Passage } from './passage.js';
import { readStored, type Stored } from './stored.js';
import { KeptStores } from './kept-stores.js';

/** What a run did after it was resumed, told so that one difference is one line. */
export async function reportOf(passage: Passage, before: Stored): Promise<unknown> {
  const { model, events, effects, stores } = passage;
  const last = model.requests.at(-1);
  return new Steadier().steady({
    // a directive is performed beside its run
    effects: before.directives.length > 0 ? effects.toSorted() : effects,
    // whether a run meets another one depends on the time
    events: events.map(lineOf).filter((line) => line !== 'warning conversation_busy'),
    requests: model.requests.length,
    messages: snapshot(last?.messages ?? []),
    tools: last?.tools.map(({ id }) => id) ?? [],
    ...(stores instanceof KeptStores && (await storedLines(stores, before))),
  });
}

async function storedLines(stores: KeptStores, before: Stored): Promise<object> {
  const stored = await readStored(stores);
  return {
    runs: stored.runs.map(({ record }) => `${record.status} ${record.finishReason}`),
    pending: stored.pending.map(pendingLine),
    journal: stored.journal.map(
      ({ call, outcome }) => `${call.declaredId} ${call.args} ${outcome?.status ?? 'in progress'}`,
    ),
    directives: stored.directives.map(({ intent, status }) => `${intent.type} ${status}`),
    audit: stored.audit.slice(before.audit.length).map(auditLine).toSorted(),
    conversations: snapshot(stored.conversations),
  };
}

/** An event in a line. The text and the messages are told elsewhere. */
function lineOf(event: LoopEvent): string {
  if (event.type === 'sub-run') return `sub-run > ${lineOf(event.event)}`;
  return [event.type, ...detailsOf(event)].join(' ');
}

function detailsOf(event: LoopEvent): readonly string[] {
  if (event.type === 'tool-call' || event.type === 'tool-start')
    return [event.tool, event.toolCallId];
  if (event.type === 'tool-result') {
    const { id, toolCallId, status, error, args } = event.record;
    return [id, toolCallId, JSON.stringify(args) ?? '', status, ...(error ? [error.code] : [])];
  }
  if (event.type === 'approval-request') return [event.approval.tool, event.approval.toolCallId];
  if (event.type === 'run-end')
    return [
      event.finishReason,
      JSON.stringify(event.text),
      ...(event.error ? [event.error.code] : []),
    ];
  return event.type === 'warning' ? [event.code] : [];
}

function pendingLine({ kind, answer, usedAt }: Pending): string {
  return `${kind} ${answer?.decision ?? 'open'}${usedAt === undefined ? '' : ', used'}`;
}

function auditLine(entry: AuditEntry): string {
  const { kind, declaredId } = entry;
  return [kind, declaredId, ...toldIn(entry)].filter((part) => part !== undefined).join(' ');
}

function toldIn(entry: AuditEntry): readonly (string | undefined)[] {
  if (entry.kind === 'decision') return [`${entry.decision.kind} by ${entry.decision.rule}`];
  if (entry.kind === 'denied') return [entry.code];
  if (entry.kind === 'outcome') return [entry.status, entry.code];
  if (entry.kind === 'approval-decision') return [entry.decision, entry.decidedBy];
  return entry.kind === 'pending-answer' ? [entry.decision, entry.answeredBy] : [];
}
