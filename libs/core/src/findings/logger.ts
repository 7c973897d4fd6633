import { Logger as NestLogger } from '@nestjs/common';
import { visible } from '@toolloop/protocol';

/**
 * The logger of Nest, for texts that a tool, a store or a model may have written. An invisible
 * character is written as its escape, and a further line is indented, so that no text can look like
 * a line of its own. An error that needs none of this is handed on as it is.
 */
export class Logger extends NestLogger {
  override error(message: unknown, ...more: unknown[]): void {
    super.error(readable(message), ...more.map((detail) => readable(detail)));
  }

  override warn(message: unknown, ...more: unknown[]): void {
    super.warn(readable(message), ...more.map((detail) => readable(detail)));
  }

  override log(message: unknown, ...more: unknown[]): void {
    super.log(readable(message), ...more.map((detail) => readable(detail)));
  }

  override debug(message: unknown, ...more: unknown[]): void {
    super.debug(readable(message), ...more.map((detail) => readable(detail)));
  }

  override verbose(message: unknown, ...more: unknown[]): void {
    super.verbose(readable(message), ...more.map((detail) => readable(detail)));
  }

  override fatal(message: unknown, ...more: unknown[]): void {
    super.fatal(readable(message), ...more.map((detail) => readable(detail)));
  }
}

/** The errors behind an error that are written; a chain that ends in itself stops here. */
const MAX_CAUSES = 8;

function readable(value: unknown, left = MAX_CAUSES): unknown {
  if (typeof value === 'string') return readableText(value);
  return value instanceof Error ? readableError(value, left) : value;
}

/** A break that begins a line at the margin; alone, `\r` would write over the line that stands. */
const MARGIN = /(?:\r\n|[\n\v\f\r])(?=\S)/g;

function readableText(text: string): string {
  return visible(text).replaceAll(MARGIN, '\n    ');
}

/**
 * Copies an error with readable texts; returns the error itself if all of them are. Its own fields,
 * such as the detail of a database, are copied as well.
 */
function readableError(error: Error, left: number): Error {
  const texts = textsOf(error);
  const shown = Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, readableText(text)]),
  );
  const cause = left > 0 ? readable(error.cause, left - 1) : undefined;
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  const others = errors.map((other) => (left > 0 ? readable(other, left - 1) : undefined));
  const isReadable = Object.entries(texts).every(([name, text]) => shown[name] === text);
  if (
    isReadable &&
    cause === error.cause &&
    others.every((other, index) => other === errors[index])
  )
    return error;
  const copy =
    others.length > 0 ? new AggregateError(others, '', { cause }) : new Error('', { cause });
  return Object.defineProperties(copy, {
    ...Object.getOwnPropertyDescriptors({ ...Object.fromEntries(Object.entries(error)), ...shown }),
    ...hiddenIn(shown),
  });
}

/** The texts of an error: those that every error has, and those of its own fields. */
function textsOf(error: Error): Readonly<Record<string, string>> {
  const { name, message, stack = '' } = error;
  const own = Object.entries(error).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return { ...Object.fromEntries(own), name, message, stack };
}

/** The texts that a printed error does not repeat among its fields. */
function hiddenIn({
  name,
  message,
  stack,
}: Readonly<Record<string, string>>): PropertyDescriptorMap {
  return { name: { value: name }, message: { value: message }, stack: { value: stack } };
}
