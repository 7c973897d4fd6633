import { type Attributes, trace } from '@opentelemetry/api';
import {
  type Decision,
  type LoopEvent,
  type LoopEventOf,
  LoopEventSink,
  type RunIdentity,
} from '@toolloop/protocol';
import { SPAN_EVENTS, TOOLLOOP } from './conventions.js';
import type { LoopMetrics } from './loop-metrics.js';

/**
 * Puts decisions, requests to people and injections on the span in which they happen, and counts
 * them. Each event is told while its part of the run is active.
 */
export class LoopSpanEvents extends LoopEventSink {
  constructor(private readonly metrics: LoopMetrics) {
    super();
  }

  override write(event: LoopEvent, run: RunIdentity): void {
    const { type } = event;
    if (type === 'tool-start') return tellDecision(event.decision);
    if (type === 'approval-request') return this.asked(run, 'approval', event.approval.approvalId);
    if (type === 'pending-request') return this.asked(run, event.kind, idOf(event));
    if (type === 'approval-decision')
      return this.decided(run, 'approval', event.decision.approvalId, event.decision.decision);
    if (type === 'pending-answer')
      return this.decided(run, event.kind, event.pendingId, event.decision);
    if (type === 'tools-injected') return this.injected(run, event);
    if (type === 'tools-removed')
      return tell(SPAN_EVENTS.removed, { [TOOLLOOP.tools]: [...event.tools] });
    if (type === 'warning') return tell(SPAN_EVENTS.warning, { [TOOLLOOP.warning]: event.code });
    return undefined;
  }

  private injected(run: RunIdentity, { provider, tools }: LoopEventOf<'tools-injected'>): void {
    this.metrics.injected(run, provider, tools.length);
    tell(SPAN_EVENTS.injected, { [TOOLLOOP.source]: provider, [TOOLLOOP.tools]: [...tools] });
  }

  private asked(run: RunIdentity, kind: string, id: string): void {
    this.metrics.asked(run, kind);
    tell(SPAN_EVENTS.pendingRequest, { [TOOLLOOP.pendingKind]: kind, [TOOLLOOP.pendingId]: id });
  }

  private decided(run: RunIdentity, kind: string, id: string, answer: string): void {
    this.metrics.decided(run, kind, answer);
    tell(SPAN_EVENTS.pendingAnswer, {
      [TOOLLOOP.pendingKind]: kind,
      [TOOLLOOP.pendingId]: id,
      [TOOLLOOP.answer]: answer,
    });
  }
}

function idOf(event: LoopEventOf<'pending-request'>): string {
  switch (event.kind) {
    case 'client':
      return event.request.pendingId;
    case 'question':
      return event.request.questionId;
    case 'rehearsal':
      return event.request.rehearsalId;
  }
}

function tellDecision({ kind, rule, policyVersion }: Decision): void {
  tell(SPAN_EVENTS.decision, {
    [TOOLLOOP.decision]: kind,
    [TOOLLOOP.rule]: rule,
    [TOOLLOOP.policyVersion]: policyVersion,
  });
}

function tell(name: string, attributes: Attributes): void {
  trace.getActiveSpan()?.addEvent(name, attributes);
}
