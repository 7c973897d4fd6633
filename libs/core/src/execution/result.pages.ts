import { ToolError } from '../protocol/tool-error.js';
import { ResultPage, boundaryIn } from './result-page.js';

/** What is asked of a result that was cut. */
export interface PageQuestion {
  readonly handle: string;
  /** Where to begin, in characters. */
  readonly offset: number;
  readonly length: number;
}

interface KeptResult {
  /** The declared id of the tool that gave it. */
  readonly tool: string;
  /** The model's projection, whole. */
  readonly text: string;
  readonly bytes: number;
}

/** What the transcript holds already. */
interface EarlierResults {
  /** Handles go on counting behind them, so that an old handle is never a new result. */
  readonly results: number;
  readonly hasHandles: boolean;
}

/**
 * One run's results that were larger than the model may read at once, so that it can read the rest. The newest are kept, up to so many bytes; no other run
 * has a way to them.
 */
export class ResultPages {
  private readonly kept = new Map<string, KeptResult>();
  /** The tools of those that are not kept any more, by handle. */
  private readonly gone = new Map<string, string>();
  private bytes = 0;
  private count: number;
  private wasNeeded: boolean;

  constructor(
    private readonly mostBytes: number,
    earlier: EarlierResults = { results: 0, hasHandles: false },
  ) {
    this.count = earlier.results;
    this.wasNeeded = earlier.hasHandles;
  }

  /** Of everything that is kept. */
  get keptBytes(): number {
    return this.bytes;
  }

  /** Whether the model knows of a handle. */
  get hasHandles(): boolean {
    return this.wasNeeded;
  }

  /** The handle by which the text can be read; undefined where it is too large to be kept. */
  keep(tool: string, text: string): string | undefined {
    const bytes = Buffer.byteLength(text);
    if (bytes > this.mostBytes) return undefined;
    this.count += 1;
    this.wasNeeded = true;
    const handle = `r${this.count}`;
    this.kept.set(handle, { tool, text, bytes });
    this.bytes += bytes;
    this.forgetDownTo(this.mostBytes);
    return handle;
  }

  /** Throws a `ToolError` that says how to get back what is not there. */
  read({ handle, offset, length }: PageQuestion): ResultPage {
    const result = this.kept.get(handle);
    if (!result) throw this.missing(handle);
    if (offset < result.text.length || offset === 0) return new ResultPage(handle, result, boundaryIn(result.text, offset), length);
    throw new ToolError(`The result ${handle} has ${result.text.length} characters, counted from 0: begin before its end.`);
  }

  /** Lets go of what is kept; it reads as what had to go for want of room. */
  forget(): void {
    this.forgetDownTo(0);
  }

  private forgetDownTo(bytes: number): void {
    for (const [handle, result] of this.kept) {
      if (this.bytes <= bytes) return;
      this.kept.delete(handle);
      this.gone.set(handle, result.tool);
      this.bytes -= result.bytes;
    }
  }

  private missing(handle: string): ToolError {
    const tool = this.gone.get(handle);
    if (tool !== undefined)
      return new ToolError(`The result ${handle} is not kept any more. Call ${tool} again, and ask it for less at a time.`);
    const known = [...this.kept.keys()];
    if (known.length > 0)
      return new ToolError(`No result has that handle. Available: ${known.join(', ')}. Call the tool again for any other.`);
    return new ToolError(
      'No result is available: those of an earlier run, or from before this one was interrupted, are gone. Call that tool again.',
    );
  }
}
