import type { LoopEvent, LoopResult, ToolInvocationRecord } from '@toolloop/core';
import { eventsOf } from './collect.js';

/** What an expectation may look at: the events of a run, or what the run came to. */
export type RunEvidence = readonly LoopEvent[] | LoopResult;

/** Tells the two kinds of evidence apart. */
export function isEvents(evidence: RunEvidence): evidence is readonly LoopEvent[] {
  return Array.isArray(evidence);
}

/** What became of the run's calls, in the order of their results. */
export function recordsOf(evidence: RunEvidence): readonly ToolInvocationRecord[] {
  return isEvents(evidence) ? eventsOf(evidence, 'tool-result').map(({ record }) => record) : evidence.toolCalls;
}
