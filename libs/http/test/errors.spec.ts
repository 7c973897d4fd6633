import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import {
  ConfigurationError,
  InvalidRequestError,
  type LoopResult,
  ModelError,
  OperatorError,
  PendingError,
  RunElsewhereError,
  RunError,
  ToolError,
} from '@toolloop/core';
import { AuditError } from '@toolloop/core/audit';
import { DirectiveError } from '@toolloop/core/directives';
import { PolicyError } from '@toolloop/core/runs';
import { RunLostError } from '@toolloop/core/stores';
import { type RunFailure, StorageUnavailableError } from '@toolloop/protocol';
import { toHttpError } from '../src/exception-filter.js';
import { FallenBehindError } from '../src/open-runs.js';

/**
 * A row for each class of errors that can leave a service, or a controller of the application: the
 * error, its status and its code.
 */
type Row = readonly [name: string, status: number, code: string, error: Error];

const REQUESTS = {
  invalid_request: 400,
  invalid_messages: 400,
  unknown_tool: 400,
  unknown_model: 400,
  unknown_actor: 400,
  forbidden: 403,
  unknown_run: 404,
  unknown_session: 404,
  unreadable_run: 409,
  too_many_sessions: 429,
} satisfies Record<InvalidRequestError['code'], number>;

const ANSWERS = {
  invalid_answer: 400,
  not_permitted: 403,
  not_found: 404,
  already_answered: 409,
  expired: 409,
  withdrawn: 409,
  held: 409,
} satisfies Record<PendingError['code'], number>;

const DIRECTIVES = {
  outcome_needed: 400,
  not_permitted: 403,
  not_found: 404,
  not_possible: 409,
} satisfies Record<DirectiveError['code'], number>;

const POLICIES = { invalid: 400, not_found: 404, conflict: 409 } satisfies Record<
  PolicyError['code'],
  number
>;

const RUNS = {
  model_error: 502,
  model_incomplete: 502,
  invalid_output: 502,
  storage_unavailable: 503,
  invalid_step: 500,
  stop_condition: 500,
  cannot_continue: 500,
  internal: 500,
} satisfies Record<RunFailure['code'], number>;

/** The codes of a table as its type has them. */
function codesOf<Code extends string>(
  table: Readonly<Record<Code, number>>,
): readonly (readonly [code: Code, status: number])[] {
  return Object.entries(table) as [Code, number][];
}

function failed(error: RunFailure | undefined): RunError {
  const result = {
    runId: 'run',
    finishReason: error ? 'error' : 'aborted',
    toolCalls: [],
    ...(error && { error }),
  };
  return new RunError(result as unknown as LoopResult);
}

const ROWS: readonly Row[] = [
  ...codesOf(REQUESTS).map(([code, status]): Row => [
    'InvalidRequestError',
    status,
    code,
    new InvalidRequestError(code, 'No.'),
  ]),
  ...codesOf(ANSWERS).map(([code, status]): Row => [
    'PendingError',
    status,
    code,
    new PendingError(code, 'No.'),
  ]),
  ...codesOf(DIRECTIVES).map(([code, status]): Row => [
    'DirectiveError',
    status,
    code,
    new DirectiveError(code, 'No.'),
  ]),
  ...codesOf(POLICIES).map(([code, status]): Row => [
    'PolicyError',
    status,
    code,
    new PolicyError(code, 'No.'),
  ]),
  ...codesOf(RUNS).map(([code, status]): Row => [
    'RunError',
    status,
    code,
    failed({ code, message: 'No.' }),
  ]),
  ['RunError', 503, 'aborted', failed(undefined)],
  ['OperatorError', 403, 'not_permitted', new OperatorError('audit')],
  ['RunElsewhereError', 409, 'run_elsewhere', new RunElsewhereError('run')],
  ['RunLostError', 409, 'run_elsewhere', new RunLostError({ runId: 'run', owner: 'a', epoch: 1 })],
  ['FallenBehindError', 410, 'events_gone', new FallenBehindError()],
  ['ModelError', 502, 'model_error', new ModelError('The key sk-1 is wrong.')],
  ['AuditError', 503, 'audit_unavailable', new AuditError('disk full')],
  ['StorageUnavailableError', 503, 'storage_unavailable', new StorageUnavailableError()],
  [
    'StorageUnavailableError',
    503,
    'storage_unavailable',
    new Error('wrapped', { cause: new StorageUnavailableError() }),
  ],
  [
    'ConfigurationError',
    500,
    'internal',
    new ConfigurationError([{ at: 'Tools', problem: 'Is wrong.', remedy: 'Mend it.' }]),
  ],
  ['ToolError', 500, 'internal', new ToolError('For the model alone.')],
];

/** The classes whose errors reach no route, with what becomes of them. */
const WITHIN: Readonly<Record<string, string>> = {
  ForeignDeclarationError: 'a finding about a source of tools',
  ProjectionError: 'the record of a call, which tells only that nothing is shown',
  RedactionError: 'the record of a call, which tells only that nothing is shown',
  ForeignEntityError: 'the record of a call',
  UnknownReferenceError: 'what the model reads about its arguments',
  RefusedError: 'a refusal that the model reads',
  ResourceWriteError: 'what the model reads about its write',
  AnswerTooLargeError: 'the failure of a call over MCP',
  UnreadableAnswerError: 'the unknown outcome of a call over MCP',
  StoreRefusalError: 'a mistake of the application, which the log has: 500',
  UnstorableError: 'a mistake of the application, which the log has: 500',
  CallFailure: 'the record of a call',
  PluginError: 'the failure of a call, or of a run, whose log has it',
  CallPending: 'a run that waits',
  CallWaitsElsewhere: 'a run that waits',
  Interruption: 'the end of a run',
  RunFault: 'the `error` of a run, which its `RunError` tells',
  OutdatedDatabaseError: 'the application does not start',
};

/** The libraries that are clients, or are for tests. */
const CLIENTS: ReadonlySet<string> = new Set(['cli', 'client', 'react', 'testing', 'evals']);

/** Every class of errors that the sources declare and export. */
function declaredErrors(): string[] {
  return readdirSync('libs')
    .filter((lib) => !CLIENTS.has(lib) && existsSync(`libs/${lib}/src`))
    .flatMap((lib) => sourcesOf(`libs/${lib}/src`))
    .flatMap((text) =>
      [...text.matchAll(/^export class (\w+) extends (?:\w*Error|\w+Exception)\b/gm)].flatMap(
        ([, name]) => name ?? [],
      ),
    );
}

function sourcesOf(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return entries
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
}

describe('an error of ours over HTTP', () => {
  it('has its status in this table, or a reason why it reaches no route, whichever library declares it', () => {
    const known = new Set([...ROWS.map(([name]) => name), ...Object.keys(WITHIN)]);
    expect(declaredErrors().toSorted()).toEqual([...known].toSorted());
  });

  it.each(ROWS)('is of the class %s and is answered with %i %s', (_name, status, code, error) => {
    const told = toHttpError(error);
    expect([told.status, told.body.code]).toEqual([status, code]);
    expect(told.retryAfter !== undefined).toBe(code === 'storage_unavailable');
    expect(JSON.stringify(told.body)).not.toMatch(/sk-1|disk full|Mend it|model alone/);
  });
});

describe('a failure of storage over HTTP', () => {
  const passing = new StorageUnavailableError();
  const staying = new StorageUnavailableError('No right.', { mayPass: false });
  const code = 'storage_unavailable' as const;
  const ended = (toolCalls: readonly unknown[], cause: Error): RunError => {
    const result = {
      runId: 'r',
      finishReason: 'error',
      error: { code, message: 'Gone.' },
      toolCalls,
    };
    return new RunError(result as unknown as LoopResult, { cause });
  };
  const charged = { id: 'pay', effect: 'external_side_effect', status: 'succeeded' };
  const unknown = { ...charged, status: 'failed', error: { code: 'unknown_outcome' } };

  it.each<readonly [string, boolean, Error]>([
    ['it may pass', true, passing],
    ['it does not pass', false, staying],
    ['a run made no call with an effect', true, ended([], passing)],
    ['a call of the run stands', false, ended([charged], passing)],
    ['the failure that ended the run does not pass', false, ended([], staying)],
    [
      'another error tells of the run',
      false,
      new Error('Kept.', { cause: ended([charged], passing) }),
    ],
    ['the audit ended a run that had done nothing', false, ended([], new AuditError('full'))],
    ['the audit ended a run whose call stands', false, ended([charged], new AuditError('full'))],
    ['it is unknown whether a call took place', false, ended([unknown], passing)],
  ])(
    'tells a client to try again by itself only if that is safe and helps: %s',
    (_, may, error) => {
      const { status, body, retryAfter } = toHttpError(error);
      expect([status, body.code, retryAfter !== undefined]).toEqual([503, code, may]);
      expect(/try again/i.test(body.message)).toBe(error === passing);
    },
  );
});
