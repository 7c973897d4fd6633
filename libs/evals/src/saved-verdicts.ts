import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { type EvalReport, isRecord, type Verdict } from '@toolloop/protocol';
import { EvalError } from './eval.error.js';

/**
 * Reads a report from its JSON.
 *
 * @throws {EvalError} For what is none.
 */
export function reportIn(file: string): EvalReport {
  const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (!isRecord(value) || value['version'] !== 1 || !Array.isArray(value['runs']))
    throw new EvalError(`${file} is no report of version 1.`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its version was checked
  return value as unknown as EvalReport;
}

/**
 * Adds what a person says about a run to a file of verdicts, one a line.
 *
 * @example
 * addVerdict('evals/verdicts.jsonl', {
 *   runId,
 *   verdict: 'wrong',
 *   why: 'It refunded twice.',
 *   by: 'mia',
 *   at: new Date().toISOString(),
 * });
 */
export function addVerdict(file: string, verdict: Verdict): void {
  appendFileSync(file, `${JSON.stringify(verdict)}\n`);
}

/**
 * Reads a file of verdicts; of each run and approval the last one.
 *
 * @throws {EvalError} For a line that is none, with its number.
 */
export function verdictsIn(file: string): readonly Verdict[] {
  if (!existsSync(file))
    throw new EvalError(
      `There is no file ${file}. Add a verdict first: toolloop eval verdict RUN right`,
    );
  const lines = readFileSync(file, 'utf8').split('\n');
  const all = lines.flatMap((line, index) =>
    line.trim() === '' ? [] : [verdictOf(line, `${file}:${index + 1}`)],
  );
  return [...new Map(all.map((one) => [`${one.runId} ${one.approvalId ?? ''}`, one])).values()];
}

function verdictOf(line: string, where: string): Verdict {
  const value = parsedLine(line);
  if (
    !isRecord(value) ||
    typeof value['runId'] !== 'string' ||
    (value['verdict'] !== 'right' && value['verdict'] !== 'wrong')
  )
    throw new EvalError(
      `${where} is no verdict: { "runId": "…", "verdict": "right" or "wrong", … }.`,
    );
  const { runId, verdict, approvalId, why, by, at } = value;
  return {
    runId,
    verdict,
    ...(typeof approvalId === 'string' && { approvalId }),
    ...(typeof why === 'string' && { why }),
    by: typeof by === 'string' ? by : '',
    at: typeof at === 'string' ? at : '',
  };
}

function parsedLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
