import { parseWireObject } from './wire-object.js';

/** A model may have invented a name that its provider refuses to read again; the refusal in the transcript says what was wrong. */
export function toWireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_';
}

/** Providers refuse a transcript with arguments that are not a JSON object; the error result in the transcript explains what they were. */
export function toWireArguments(text: string): string {
  return parseWireObject(text) === undefined ? '{}' : text;
}
