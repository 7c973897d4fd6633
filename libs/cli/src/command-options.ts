import { Option } from 'commander';
import type { Answer } from './output.js';

export interface JsonOption {
  readonly json?: boolean;
}

/** Prints the answer of a command, whose exit code is that of the process. */
export type Print = (answer: Answer, options: JsonOption) => void;

export const APP = (): Option =>
  new Option('--app <file>', 'the compiled file with the module of the application').env(
    'TOOLLOOP_APP',
  );
export const EXPORT = (): Option =>
  new Option('--export <name>', 'the name under which the file exports the module');
export const ACTOR = (): Option =>
  new Option('--actor <id>', 'the actor for whom --app works').env('TOOLLOOP_ACTOR');
export const TENANT = (): Option =>
  new Option('--tenant <name>', 'the tenant of the actor').env('TOOLLOOP_TENANT');
export const URL_OPTION = (): Option =>
  new Option('--url <address>', 'the address of an application that listens').env('TOOLLOOP_URL');
export const OPEN = (): Option =>
  new Option('--open', 'show the same in the console, in a browser');
export const CONSOLE = (): Option =>
  new Option('--console <path>', 'the path of the console, for --open').default('console');
export const JSON_OPTION = (): Option => new Option('--json', 'print the answer as JSON');
