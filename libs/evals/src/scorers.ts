import { isDeepStrictEqual } from 'node:util';
import type { Score } from '@toolloop/protocol';
import { Ajv } from 'ajv';
import type { EvalCase, ExpectedCall } from './data-set.js';
import { EvalError } from './eval.error.js';
import type { ScoredRun } from './evaluation.js';

const PASSED = { passed: true } as const;

/** The calls that a case expects were made, in their order; with `exact` no others. */
const expectedCalls: Scorer = {
  name: 'calls',
  score: ({ calls }, { calls: expected, exact = false }) =>
    expected ? scoreOfCalls(calls, expected, exact) : undefined,
};

/** No call of a forbidden tool succeeded. */
const forbiddenCalls: Scorer = {
  name: 'forbidden',
  score: ({ calls }, { forbidden }) => {
    if (!forbidden) return undefined;
    const made = calls.filter(
      ({ tool, status }) =>
        status === 'succeeded' && forbidden.some((pattern) => fits(pattern, tool)),
    );
    return made.length === 0
      ? PASSED
      : {
          passed: false,
          why: `Succeeded: ${made.map(({ tool, args }) => `${tool} ${JSON.stringify(args)}`).join('; ')}.`,
        };
  },
};

/** The final answer holds each fact. */
const finalFacts: Scorer = {
  name: 'facts',
  score: ({ text }, { facts }) => {
    if (!facts || facts.length === 0) return undefined;
    const missing = facts.filter((fact) => !holds(text, fact));
    if (missing.length === 0) return PASSED;
    return {
      passed: false,
      score: 1 - missing.length / facts.length,
      why: `The answer has nothing of: ${missing.join('; ')}.`,
    };
  },
};

/** The run ended as it must: `stop` or `waiting`, unless the case says otherwise. */
export const finish: Scorer = {
  name: 'finish',
  score: ({ finishReason, error }, { finishReason: expected }) => {
    const isRight =
      expected === undefined
        ? finishReason === 'stop' || finishReason === 'waiting'
        : finishReason === expected;
    return isRight
      ? PASSED
      : {
          passed: false,
          why: `It ended with ${finishReason}${error === undefined ? '' : `: ${error}`}.`,
        };
  },
};

/** The scorers of every evaluation. */
export const SCORERS: readonly Scorer[] = [finish, expectedCalls, forbiddenCalls, finalFacts];

/** Looks at a run of a case; undefined where it has nothing to say about the case. */
export interface Scorer {
  readonly name: string;
  score(
    run: ScoredRun,
    of: EvalCase,
  ): Omit<Score, 'name'> | undefined | Promise<Omit<Score, 'name'> | undefined>;
}

function scoreOfCalls(
  calls: ScoredRun['calls'],
  expected: readonly ExpectedCall[],
  exact: boolean,
): Omit<Score, 'name'> {
  let next = 0;
  const others: string[] = [];
  for (const made of calls) {
    const wanted = expected[next];
    if (wanted && isCall(made, wanted)) next += 1;
    else others.push(`${made.tool} ${JSON.stringify(made.args)} ${made.status}`);
  }
  const missing = expected.slice(next);
  const isWrong = missing.length > 0 || (exact && others.length > 0);
  if (!isWrong) return PASSED;
  const why = [
    ...(missing.length > 0
      ? [`Not made, or not in this order: ${missing.map(textOfCall).join('; ')}.`]
      : []),
    ...(others.length > 0 ? [`Made: ${others.join('; ')}.`] : []),
  ];
  return { passed: false, score: next / Math.max(1, expected.length), why: why.join(' ') };
}

function isCall(
  made: ScoredRun['calls'][number],
  { tool, args, schema, status = 'succeeded' }: ExpectedCall,
): boolean {
  if (!fits(tool, made.tool) || made.status !== status) return false;
  if (args !== undefined && !isDeepStrictEqual({ ...args }, { ...made.args })) return false;
  return schema === undefined || validatorOf(schema)(made.args);
}

function textOfCall({ tool, args, schema, status = 'succeeded' }: ExpectedCall): string {
  const wanted = args ? ` ${JSON.stringify(args)}` : schema ? ' with arguments of its schema' : '';
  return `${tool}${wanted} ${status}`;
}

const ajv = new Ajv({ strict: false, allErrors: false });

/** @throws {EvalError} For a schema that is none. */
function validatorOf(schema: NonNullable<ExpectedCall['schema']>): (args: unknown) => boolean {
  try {
    const validate = ajv.compile(schema);
    return (args) => validate(args);
  } catch (error) {
    throw new EvalError(
      `A case has a schema that is none: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Tells whether a declared id fits a pattern, in which `*` stands for any part. */
function fits(pattern: string, declaredId: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(declaredId);
}

function holds(text: string, fact: string): boolean {
  const [, pattern, flags = 'i'] = /^\/(.+)\/([a-z]*)$/s.exec(fact) ?? [];
  return pattern === undefined
    ? text.toLowerCase().includes(fact.toLowerCase())
    : new RegExp(pattern, flags).test(text);
}
