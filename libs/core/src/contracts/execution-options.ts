import { BOOLEAN, NOT_NEGATIVE, oneOf } from '../findings/option-rules.js';
import { defineOptions } from '../findings/options.js';

/**
 * Options for executing and reporting a call. Set for the application, a provider, a tool or a run,
 * each of which may leave options out; in that order, the later wins.
 */
export interface ExecutionOptions {
  /**
   * Checks the arguments against their schema and with class-validator. `false` is for tools that
   * check for themselves: they receive whatever JSON object the model sent, with the schema's
   * defaults filled in. Size, JSON, reserved names, guards, pipes and the check of the result
   * remain.
   * @default true
   */
  readonly validation: boolean;
  /**
   * Logs one line when a call is let in and one when it has ended: ids, duration, status and error
   * code, never a result. @default true
   */
  readonly logging: boolean;
  /** Adds the arguments to the first line, as the UI may see them. @default false */
  readonly logArguments: boolean;
  /** The most characters of each argument that are logged. @default 100 */
  readonly truncateLogs: number;
  /**
   * `inline` adds `_execution_metadata` to results that are JSON objects, for the model and the ui.
   * @default 'none'
   */
  readonly metadata: 'none' | 'inline';
  /**
   * `envelope` lets the model read `{ ok, type, result, human_readable? }`, or
   * `{ ok, type, errors }`; the ui reads the plain value. @default 'value'
   */
  readonly resultFormat: 'value' | 'envelope';
  /**
   * Adds `_availableOperations` to each entity in a result: the ids of the tools that can be called
   * on it now. Only the model reads it, and only if all of it fits into `limits.resultBytes`. It
   * repeats what the list of tools says and costs tokens: use it for models that lose sight of that
   * list. @default false
   */
  readonly availableOperations: boolean;
}

/** The execution options of a provider or a tool. */
export interface ToolExecutionOptions extends Partial<ExecutionOptions> {
  /**
   * The tool validates, logs and words its results itself, and nothing of that is done for it,
   * whatever the application or the run says. @default false
   */
  readonly selfManaged?: boolean;
}

export const DEFAULT_EXECUTION: ExecutionOptions = {
  validation: true,
  logging: true,
  logArguments: false,
  truncateLogs: 100,
  metadata: 'none',
  resultFormat: 'value',
  availableOperations: false,
};

const EXECUTION_WORDING = {
  unknown: 'There is no execution option "*" here.',
  option: 'The execution option "*"',
};

export const EXECUTION_OPTIONS = defineOptions<Partial<ExecutionOptions>>(
  {
    validation: BOOLEAN,
    logging: BOOLEAN,
    logArguments: BOOLEAN,
    truncateLogs: NOT_NEGATIVE,
    metadata: oneOf('none', 'inline'),
    resultFormat: oneOf('value', 'envelope'),
    availableOperations: BOOLEAN,
  },
  {
    wording: EXECUTION_WORDING,
    elsewhere: {
      selfManaged: { remedy: 'Say it where the tool is declared: on the tool or its provider.' },
    },
  },
);

export const TOOL_EXECUTION_OPTIONS = defineOptions<ToolExecutionOptions>(
  { ...EXECUTION_OPTIONS.rules, selfManaged: BOOLEAN },
  { wording: EXECUTION_WORDING },
);
