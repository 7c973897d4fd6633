/** What became of a program. */
export interface CodeOutcome {
  readonly stdout: string;
  readonly stderr: string;
  /** 0 where all went well. */
  readonly exitCode: number;
}

/**
 * The port to a place where code of a stranger may run: a container or a service, never this process. There is no implementation here. One that
 * is given must stop the program when the signal is aborted, and throws a `ToolError` when it cannot run it at all; a program that fails is an outcome.
 */
export abstract class CodeInterpreter {
  abstract run(code: string, language: string, signal: AbortSignal): Promise<CodeOutcome>;
}
