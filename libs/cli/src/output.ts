import { Writable } from 'node:stream';
import { type JsonValue, visible } from '@toolloop/protocol';

/** The exit codes: 0 it is as it should be, 1 it is not, 2 the command could not be carried out. */
export type ExitCode = 0 | 1 | 2;

/** The answer of a command: a text for people, and the same as a value for programs. */
export interface Answer {
  readonly text: string;
  readonly value: unknown;
  /** @default 0 */
  readonly exitCode?: ExitCode;
}

/** A mistake of the person at the command line, or of what was named there, told in one line. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/**
 * The standard output, which from here on carries what a command says and nothing else: whatever
 * the application or its libraries write there goes to the standard error. A client that reads JSON
 * or a protocol would stumble over it.
 */
export class CommandOutput extends Writable {
  private readonly toReader = process.stdout.write.bind(process.stdout);

  constructor() {
    super({ decodeStrings: false });
    // A reader that has seen enough closes its end: `toolloop runs | head`.
    for (const stream of [process.stdout, this]) stream.on('error', () => undefined);
    process.stdout.write = process.stderr.write.bind(process.stderr);
  }

  /** The width of the terminal behind it, which `node:readline` asks for. */
  get columns(): number {
    return process.stdout.columns;
  }

  override _write(
    chunk: Buffer | string,
    _encoding: BufferEncoding,
    callback: (error?: Error | null) => void,
  ): void {
    this.toReader(chunk, callback);
  }

  /** Prints an answer, as JSON where a program reads it. */
  print({ text, value }: Answer, { json = false }: { readonly json?: boolean }): void {
    this.write(json ? `${JSON.stringify(value, undefined, 2)}\n` : `${text}\n`);
  }

  /** Resolves once all of it has left the process. */
  flushed(): Promise<void> {
    return new Promise((resolve) => this.end(resolve));
  }
}

/**
 * Returns the words of an error for a person: one line, or one for each of several mistakes. What
 * others have written in it moves no cursor.
 */
export function failureOf(error: unknown): string {
  if (!(error instanceof Error)) return lineOf(String(error));
  const findings = 'findings' in error && Array.isArray(error.findings) ? error.findings : [];
  if (findings.length === 0) return lineOf(error.message);
  return findings
    .map(({ at, problem, remedy }: Record<string, string>) => lineOf(`${at}: ${problem} ${remedy}`))
    .join('\n');
}

/** Writes a text as one line, in which nothing is hidden and nothing speaks to the terminal. */
export function lineOf(text: string): string {
  return shown(text)
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim();
}

/**
 * Writes a text of others so that it cannot speak to the terminal, over whose lines it could write.
 */
export function shown(text: string): string {
  return visible(text.replaceAll('\r\n', '\n')).replaceAll(/[\v\f\r]/g, '\n');
}

/** Lays out rows in columns. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows.reduce<number[]>(
    (known, row) => row.map((cell, at) => Math.max(known[at] ?? 0, cell.length)),
    [],
  );
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Reads what a person has typed as JSON; undefined for what is none. */
export function jsonIn(text: string): JsonValue | undefined {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what is parsed as JSON is JSON
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
