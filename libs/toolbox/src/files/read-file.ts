import { ToolError, ToolField } from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import { Expose } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, MaxLength, Min, MinLength } from 'class-validator';
import { withinTime, type CallContext } from '../call-context.js';
import { readLines } from './read-lines.js';
import {
  MAX_FILE_BYTES,
  rootOf,
  type FilesOptions,
  type OpenFile,
  type RootDirectory,
} from './root-directory.js';

const DEFAULT_LINES = 200;
const MAX_LINES = 2_000;

/** The input of `files__read`. */
export class ReadFileInput {
  @ToolField({ description: 'The path, relative to the root.', example: 'docs/manual.md' })
  @IsString()
  @MinLength(1)
  @MaxLength(1024)
  readonly path!: string;

  @ToolField({ description: 'The first line to read, from 1. Default: 1.' })
  @IsOptional()
  @IsInt()
  @Min(1)
  readonly offset?: number;

  @ToolField({ description: `How many lines to read. Default: ${DEFAULT_LINES}.` })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(MAX_LINES)
  readonly limit?: number;
}

/** Some lines of a file. */
export class FilePage {
  @Expose() readonly path!: string;
  @Expose() readonly text!: string;
  /** The number of the first line of `text`, from 1. */
  @Expose() readonly firstLine!: number;
  /** The number of the last line of `text`; 0 if the file has no such line. */
  @Expose() readonly lineCount!: number;
  /** The line at which the next page starts; absent at the end of the file. */
  @Expose() readonly nextOffset?: number;
  /** `true` if lines were too long to be shown whole. */
  @Expose() readonly cut!: boolean;

  constructor(page: FilePage) {
    Object.assign(this, page);
  }
}

/** Lets a model read text files of one directory, a page at a time. */
export class ReadFile {
  static readonly tool: RawToolDeclaration<ReadFileInput> = {
    id: 'files__read',
    description: 'Reads lines of a text file. Read on with the nextOffset of the result.',
    effect: 'read_only',
    labels: { reads: 'private', returns: 'untrusted', egress: false },
    input: ReadFileInput,
    output: FilePage,
  };

  private readonly root: RootDirectory;
  private readonly maxFileBytes: number;
  private readonly maxCharacters: number;
  private readonly timeoutMs: number;

  /** @throws ConfigurationError without a root */
  constructor(options: ReadFileOptions) {
    this.root = rootOf('ReadFile', options);
    this.maxFileBytes = options.maxFileBytes ?? MAX_FILE_BYTES;
    this.maxCharacters = options.maxCharacters ?? 24_000;
    this.timeoutMs = options.timeoutMs ?? 10_000;
  }

  /**
   * Reads a page of a file.
   *
   * @throws ToolError if the file cannot be read, with a hint for the model
   * @throws the reason of an aborted signal
   */
  async call(input: ReadFileInput, context: CallContext = {}): Promise<FilePage> {
    const timeUp = 'Reading the file took too long. Try again later.';
    return withinTime({ ms: this.timeoutMs, signal: context.signal, timeUp }, async (signal) => {
      const file = await this.root.open(input.path);
      try {
        return await this.page(file, input, signal);
      } finally {
        await file.handle.close();
      }
    });
  }

  private async page(
    file: OpenFile,
    { path, offset = 1, limit = DEFAULT_LINES }: ReadFileInput,
    signal: AbortSignal,
  ): Promise<FilePage> {
    this.checkSize(file);
    const texts: string[] = [];
    let room = this.maxCharacters;
    let cut = false;
    let nextOffset: number | undefined;
    for await (const line of readLines(file, {
      maxBytes: this.maxFileBytes,
      maxLineCharacters: this.maxCharacters,
      signal,
    })) {
      if (line.number < offset) continue;
      if (texts.length === limit || line.text.length > room) {
        nextOffset = line.number;
        break;
      }
      texts.push(line.text);
      room -= line.text.length + 1;
      cut ||= line.cut;
    }
    return new FilePage({
      path,
      text: texts.join('\n'),
      firstLine: offset,
      lineCount: texts.length,
      nextOffset,
      cut,
    });
  }

  private checkSize({ size }: OpenFile): void {
    if (size <= this.maxFileBytes) return;
    throw new ToolError(
      `The file has ${size} bytes, and only files of up to ${this.maxFileBytes} can be read. Read another one.`,
    );
  }
}

export interface ReadFileOptions extends FilesOptions {
  /** The most characters of one page. @default 24_000 */
  readonly maxCharacters?: number;
  /** The milliseconds for one call. @default 10_000 */
  readonly timeoutMs?: number;
}
