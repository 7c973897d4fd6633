import type { LoopEvent, LoopResult, Message } from '@toolloop/core';
import type { AuditEntry } from '@toolloop/core/stores';
import type { ToolErrorCode } from '@toolloop/protocol';
import { expectAudit, type ExpectedAudit } from './audit-expectation.js';
import { expectDenied, expectRunEndsOnce, type RunEvidence } from './expectations.js';
import { type ExpectedInjection, expectInjected } from './injection-expectation.js';
import { expectTranscriptValid } from './transcript-expectation.js';
import { ExpectationError } from './testing.error.js';

/** The matchers as they are called on `expect(…)`; merge it into the runner's own interface. */
export interface ToolLoopMatchers<Returned = void> {
  /** The run was given an entity's tools, or a strategy's. */
  toHaveInjected(expected: ExpectedInjection): Returned;
  /** A call of the tool was denied, with this code if one is given. */
  toHaveDenied(tool: string, code?: ToolErrorCode): Returned;
  /** The audit has an entry with these fields. */
  toHaveAudited(expected: ExpectedAudit): Returned;
  /** The transcript can be sent to any provider. */
  toHaveValidTranscript(): Returned;
  /** The events are those of one whole run. */
  toEndOnce(): Returned;
}

/** The answer of a matcher, as Jest and Vitest take it. */
interface MatcherAnswer {
  readonly pass: boolean;
  readonly message: () => string;
}

/**
 * The expectations as matchers of Jest and of Vitest, whose `expect.extend` takes the same form.
 *
 * @example
 * expect.extend(toolLoopMatchers);
 * expect(await collect(run)).toHaveDenied('crm__refund', 'policy_denied');
 */
export const toolLoopMatchers = {
  toHaveInjected: (evidence: RunEvidence, expected: ExpectedInjection) =>
    answerOf(
      () => expectInjected(evidence, expected),
      `${expected.provider} to have been injected`,
    ),
  toHaveDenied: (evidence: RunEvidence, tool: string, code?: ToolErrorCode) =>
    answerOf(
      () => expectDenied(evidence, tool, code),
      `${tool} to have been denied${code === undefined ? '' : ` with ${code}`}`,
    ),
  toHaveAudited: (entries: readonly AuditEntry[], expected: ExpectedAudit) =>
    answerOf(
      () => expectAudit(entries, expected),
      `an entry ${JSON.stringify(expected)} in the audit`,
    ),
  toHaveValidTranscript: (transcript: readonly Message[] | LoopResult) =>
    answerOf(() => expectTranscriptValid(transcript), 'a transcript that can be sent'),
  toEndOnce: (events: readonly LoopEvent[]) =>
    answerOf(() => expectRunEndsOnce(events), 'the events of one whole run'),
} as const;

/**
 * Holds an expectation; its negation fails with a sentence of its own. An error that is no failed
 * expectation is thrown on.
 */
function answerOf(expectation: () => void, what: string): MatcherAnswer {
  try {
    expectation();
    return { pass: true, message: () => `Expected not ${what}.` };
  } catch (error) {
    if (!(error instanceof ExpectationError)) throw error;
    const { message } = error;
    return { pass: false, message: () => message };
  }
}
