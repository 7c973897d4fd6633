import { ToolError, ToolField } from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import { Expose } from 'class-transformer';
import { IsString, MaxLength, MinLength } from 'class-validator';
import { withinTime, type CallContext } from './call-context.js';

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
  /** The exit code; 0 on success. */
  @Expose() readonly exitCode!: number;
  /** `true` if the program printed more than is shown. */
  @Expose() readonly truncated!: boolean;

  constructor(result: CodeResult) {
    Object.assign(this, result);
  }
}

/**
 * Lets a model run code in the application's interpreter. It is an external side effect, since the
 * code may do anything.
 */
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

  /**
   * Runs a program and returns its output.
   *
   * @throws ToolError if the language is unknown or the time is up
   * @throws the reason of an aborted signal
   */
  async call(
    { code, language }: InterpretCodeInput,
    context: CallContext = {},
  ): Promise<CodeResult> {
    const { interpreter, languages, maxCharacters = 10_000, timeoutMs = 25_000 } = this.options;
    if (languages && !languages.includes(language))
      throw new ToolError(`This language cannot be run. Use one of: ${languages.join(', ')}.`);
    const timeUp = 'The program took too long and was stopped. Make it do less.';
    const { stdout, stderr, exitCode } = await withinTime(
      { ms: timeoutMs, signal: context.signal, timeUp, retryable: false },
      (signal) => interpreter.run(code, language, signal),
    );
    const truncated = stdout.length > maxCharacters || stderr.length > maxCharacters;
    return new CodeResult({
      stdout: stdout.slice(0, maxCharacters),
      stderr: stderr.slice(0, maxCharacters),
      exitCode,
      truncated,
    });
  }
}

/** The outcome of a program. */
export interface CodeOutcome {
  readonly stdout: string;
  readonly stderr: string;
  /** The exit code; 0 on success. */
  readonly exitCode: number;
}

/**
 * The port to a sandbox for untrusted code: a container or a service, never this process. There is
 * no implementation here. An implementation must stop the program when the signal is aborted, and
 * throws a `ToolError` when it cannot run it at all; a program that fails is an outcome.
 *
 * @example
 * class ContainerInterpreter extends CodeInterpreter {
 *   run(code: string, language: string, signal: AbortSignal): Promise<CodeOutcome> {
 *     return this.containers.run({ image: `sandbox-${language}`, stdin: code, signal });
 *   }
 * }
 */
export abstract class CodeInterpreter {
  abstract run(code: string, language: string, signal: AbortSignal): Promise<CodeOutcome>;
}

export interface InterpretCodeOptions {
  /** The place where the code runs. */
  readonly interpreter: CodeInterpreter;
  /** The languages that may be used. @default any; the interpreter decides */
  readonly languages?: readonly string[];
  /** The most characters of each output that are shown. @default 10_000 */
  readonly maxCharacters?: number;
  /** The milliseconds for one program. @default 25_000 */
  readonly timeoutMs?: number;
}
