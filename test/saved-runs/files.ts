import { readdirSync } from 'node:fs';
import type { Kind } from './desk.js';
import type { Stored } from './stored.js';

const FOLDER = 'test/saved-runs/golden';

/** A saved run: what had taken place by then, and what the stores hold. */
export interface File {
  readonly effects: readonly string[];
  readonly stored: Stored;
}

/** Lists the forms in which runs were saved, each a folder with the files of that form. */
export function listForms(): readonly string[] {
  return readdirSync(FOLDER).filter((name) => name.startsWith('form-'));
}

/** The form of a saved run, which its first entry tells. */
export function formOf({ stored }: File): string {
  const [entry] = stored.runs.flatMap(({ entries }) => entries);
  if (entry === undefined || !('value' in entry)) throw new Error('No run has begun.');
  return `form-${JSON.stringify(entry.value['version'])}`;
}

/** The name of the file of a situation. */
export function nameOf(kind: Kind, name: string): string {
  return `${name.replaceAll(' ', '-')}.${kind}.json`;
}

export function formFolder(form: string): string {
  return `${FOLDER}/${form}`;
}

export function fileOf(form: string, name: string): string {
  return `${formFolder(form)}/${name}`;
}

/** The file of what the run did after it was resumed, in whatever form it was saved. */
export function endOf(name: string): string {
  return `${FOLDER}/ends/${name}`;
}
