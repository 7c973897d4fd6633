import { type RawToolDeclaration, ToolError, ToolField } from '@toolloop/core';
import { Expose } from 'class-transformer';
import { IsString, MaxLength, MinLength } from 'class-validator';
import { withinTime, type CallContext } from './call-context.js';

/** The outcome of a program. */
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

/** The input of `code__interpret`. */
export class InterpretCodeInput {
  @ToolField({ description: 'The whole program. Only what it prints is shown.' })
  @IsString()
  @MinLength(1)
  @MaxLength(50_000)
  readonly code!: string;

  @ToolField({ description: 'The language it is written in.', example: 'python' })
  @IsString()
  @MinLength(1)
  @MaxLength(40)
  readonly language!: string;
}

/** The output of a program, and its exit code. */
export class CodeResult {
  @Expose() readonly stdout!: string;
  @Expose() readonly stderr!: string;
  /** 0 where all went well. */
  @Expose() readonly exitCode!: number;
  /** True where the program printed more. */
  @Expose() readonly truncated!: boolean;

  constructor(result: CodeResult) {
    Object.assign(this, result);
  }
}

export interface InterpretCodeOptions {
  /** The place where the code runs. */
  readonly interpreter: CodeInterpreter;
  /** The languages it knows. @default any; the interpreter decides */
  readonly languages?: readonly string[];
  /** Characters shown of each output. @default 10_000 */
  readonly maxCharacters?: number;
  /** Milliseconds for one program. @default 25_000 */
  readonly timeoutMs?: number;
}

/** Lets a model run code wherever the application says. It is an external side effect: there is no telling what the code does. */
export class InterpretCode {
  static readonly shortName: string = 'code_interpreter';
  static readonly tool: RawToolDeclaration<InterpretCodeInput> = {
    id: 'code__interpret',
    description: 'Runs a program and shows what it prints.',
    effect: 'external_side_effect',
    labels: { reads: 'private', returns: 'untrusted', egress: true },
    input: InterpretCodeInput,
    output: CodeResult,
  };

  constructor(private readonly options: InterpretCodeOptions) {}

  /** Throws a `ToolError` for a language that is not known or when the time is up, or the reason of an aborted signal. */
  async call({ code, language }: InterpretCodeInput, context: CallContext = {}): Promise<CodeResult> {
    const { interpreter, languages, maxCharacters = 10_000, timeoutMs = 25_000 } = this.options;
    if (languages && !languages.includes(language))
      throw new ToolError(`This language cannot be run. Use one of: ${languages.join(', ')}.`);
    const timeUp = 'The program took too long and was stopped. Make it do less.';
    const { stdout, stderr, exitCode } = await withinTime({ ms: timeoutMs, signal: context.signal, timeUp, retryable: false }, (signal) =>
      interpreter.run(code, language, signal),
    );
    const truncated = stdout.length > maxCharacters || stderr.length > maxCharacters;
    return new CodeResult({ stdout: stdout.slice(0, maxCharacters), stderr: stderr.slice(0, maxCharacters), exitCode, truncated });
  }
}
