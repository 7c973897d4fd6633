import { ToolError, ToolField } from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import { Expose, Type } from 'class-transformer';
import { IsBoolean, IsOptional, IsString, MaxLength, MinLength } from 'class-validator';
import { withinTime, type CallContext } from '../call-context.js';
import { Glob } from './glob.js';
import { readLines } from './read-lines.js';
import {
  MAX_FILE_BYTES,
  rootOf,
  walkFiles,
  type FilesOptions,
  type OpenFile,
  type RootDirectory,
} from './root-directory.js';

/** The input of `files__search`. */
export class SearchFilesInput {
  @ToolField({
    description:
      'Which files: * and ? within a name, ** across directories, {a,b} for either. Default: all.',
    example: 'src/**/*.{ts,md}',
  })
  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(200)
  readonly glob?: string;

  @ToolField({
    description:
      'Finds lines that contain this text, word for word; not a regular expression. Without it, file names are listed.',
  })
  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(200)
  readonly text?: string;

  @ToolField({ description: 'Whether upper and lower case are the same. Default: false.' })
  @IsOptional()
  @IsBoolean()
  readonly ignoreCase?: boolean;
}

/** A matching file, or a matching line of one. */
export class FileMatch {
  /** The path relative to the root, with slashes. */
  @Expose() readonly path!: string;
  /** The number of the line, from 1; absent if no text was searched. */
  @Expose() readonly line?: number;
  @Expose() readonly text?: string;
}

/** The result of a search. */
export class FileMatches {
  @Expose() @Type(() => FileMatch) readonly matches!: readonly FileMatch[];
  /**
   * The number of files with matching names that were not searched: binary, too large or
   * unreadable.
   */
  @Expose() readonly skippedFiles!: number;
  /** The limit that ended the search early: matches, entries, bytes or time. */
  @Expose() readonly stoppedBy?: string;

  constructor(found: FileMatches) {
    Object.assign(this, found);
  }
}

/** Lets a model find files of one directory by name and by content. */
export class SearchFiles {
  static readonly shortName: string = 'file_search';
  static readonly tool: RawToolDeclaration<SearchFilesInput> = {
    id: 'files__search',
    description: 'Finds files by name, or lines of text files by what they contain.',
    effect: 'read_only',
    labels: { reads: 'private', returns: 'untrusted', egress: false },
    input: SearchFilesInput,
    output: FileMatches,
  };

  private readonly root: RootDirectory;
  private readonly exclude: readonly Glob[];
  private readonly timeoutMs: number;
  private readonly maxFileBytes: number;

  /** @throws ConfigurationError without a root */
  constructor(private readonly options: SearchFilesOptions) {
    this.root = rootOf('SearchFiles', options);
    this.exclude = (options.exclude ?? ['node_modules']).map((pattern) => new Glob(pattern));
    this.timeoutMs = options.timeoutMs ?? 10_000;
    this.maxFileBytes = options.maxFileBytes ?? MAX_FILE_BYTES;
  }

  /**
   * Searches the files. A limit that is reached is no error: it is in the result.
   *
   * @throws ToolError for a glob that cannot be used
   * @throws the reason of an aborted signal
   */
  async call(input: SearchFilesInput, context: CallContext = {}): Promise<FileMatches> {
    const timeUp = 'The file system does not answer. Try again later.';
    return withinTime({ ms: this.timeoutMs + GRACE_MS, signal: context.signal, timeUp }, (signal) =>
      this.search(input, signal),
    );
  }

  private async search(
    { glob = '**', text, ignoreCase = false }: SearchFilesInput,
    signal: AbortSignal,
  ): Promise<FileMatches> {
    const budget = new SearchBudget(this.options);
    const pattern = new Glob(glob);
    const search: Search | undefined =
      text === undefined ? undefined : { budget, signal, contains: finder(text, ignoreCase) };
    const matches: FileMatch[] = [];
    let skippedFiles = 0;
    const isExcluded = (path: string) => this.exclude.some((excluded) => excluded.matches(path));
    const onEntry = () => budget.spendEntry() && budget.hasTime();
    for await (const path of walkFiles({ root: this.root, signal, isExcluded, onEntry })) {
      if (!budget.hasTime()) break;
      if (!pattern.matches(path)) continue;
      const found = search ? await this.linesOf(path, search) : fileOf(path, budget);
      if (found) matches.push(...found);
      else skippedFiles += 1;
      if (budget.stoppedBy === 'matches') break;
    }
    return new FileMatches({ matches, skippedFiles, stoppedBy: budget.stoppedBy });
  }

  /** Searches one file; undefined if it cannot be searched. */
  private async linesOf(path: string, search: Search): Promise<FileMatch[] | undefined> {
    const file = await this.root.open(path).catch(() => undefined);
    if (!file) return undefined;
    try {
      if (file.size > this.maxFileBytes) return undefined;
      return search.budget.spendBytes(file.size) ? await matchesIn(path, file, search) : [];
    } catch (error) {
      if (error instanceof ToolError && !search.signal.aborted) return undefined; // binary
      throw error;
    } finally {
      await file.handle.close();
    }
  }
}

export interface SearchLimits {
  /** The most matches. @default 100 */
  readonly maxMatches?: number;
  /** The most files and directories that are visited. @default 20_000 */
  readonly maxEntries?: number;
  /** The most bytes that are read in all files together. @default 100_000_000 */
  readonly maxBytes?: number;
  /** The milliseconds for a search, whose result is what it found until then. @default 10_000 */
  readonly timeoutMs?: number;
}

export interface SearchFilesOptions extends FilesOptions, SearchLimits {
  /** The files and directories to skip, as globs. @default ['node_modules'] */
  readonly exclude?: readonly string[];
}

/** The limit that ended a search early. */
type SearchStop = 'matches' | 'entries' | 'bytes' | 'time';

/** The remaining budget of one search. Each `spend…` tells whether the search may continue. */
class SearchBudget {
  stoppedBy: SearchStop | undefined;
  private matches: number;
  private entries: number;
  private bytes: number;
  private readonly end: number;

  constructor({
    maxMatches = 100,
    maxEntries = 20_000,
    maxBytes = 100_000_000,
    timeoutMs = 10_000,
  }: SearchLimits) {
    this.matches = maxMatches;
    this.entries = maxEntries;
    this.bytes = maxBytes;
    this.end = performance.now() + timeoutMs;
  }

  spendMatch(): boolean {
    this.matches -= 1;
    return this.hasLeft('matches', this.matches);
  }

  spendEntry(): boolean {
    this.entries -= 1;
    return this.hasLeft('entries', this.entries);
  }

  spendBytes(count: number): boolean {
    this.bytes -= count;
    return this.hasLeft('bytes', this.bytes);
  }

  /** Tells whether there is time left. */
  hasTime(): boolean {
    return this.hasLeft('time', this.end - performance.now());
  }

  private hasLeft(stop: SearchStop, left: number): boolean {
    if (left < 0) this.stoppedBy ??= stop;
    return this.stoppedBy === undefined;
  }
}

interface Search {
  readonly budget: SearchBudget;
  readonly contains: (line: string) => number;
  readonly signal: AbortSignal;
}

const MAX_LINE_CHARACTERS = 10_000;
const SHOWN_CHARACTERS = 240;
/**
 * The milliseconds beyond its time after which a search is aborted. It ends by itself when its time
 * is up, unless it hangs in the file system.
 */
const GRACE_MS = 5_000;

async function matchesIn(
  path: string,
  file: OpenFile,
  { budget, contains, signal }: Search,
): Promise<FileMatch[]> {
  const found: FileMatch[] = [];
  for await (const { number, text } of readLines(file, {
    maxBytes: file.size,
    maxLineCharacters: MAX_LINE_CHARACTERS,
    signal,
  })) {
    if (!budget.hasTime()) break;
    const at = contains(text);
    if (at < 0) continue;
    if (!budget.spendMatch()) break;
    found.push({ path, line: number, text: around(text, at) });
  }
  return found;
}

function fileOf(path: string, budget: SearchBudget): FileMatch[] {
  return budget.spendMatch() ? [{ path }] : [];
}

function finder(text: string, ignoreCase: boolean): (line: string) => number {
  if (!ignoreCase) return (line) => line.indexOf(text);
  const lower = text.toLowerCase();
  return (line) => line.toLowerCase().indexOf(lower);
}

/** Cuts a long line to the part around the match. */
function around(line: string, at: number): string {
  if (line.length <= SHOWN_CHARACTERS) return line;
  const start = Math.max(0, at - SHOWN_CHARACTERS / 4);
  const end = start + SHOWN_CHARACTERS;
  return `${start > 0 ? '…' : ''}${line.slice(start, end)}${end < line.length ? '…' : ''}`;
}
