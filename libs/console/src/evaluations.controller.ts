import { appendFile, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  BadRequestException,
  Body,
  ConflictException,
  Controller,
  Get,
  Inject,
  Injectable,
  NotFoundException,
  Param,
  Post,
  UseFilters,
  UseGuards,
} from '@nestjs/common';
import { PendingService } from '@toolloop/core';
import { ActorIdentity, Logger, Operators, parseJson } from '@toolloop/core/internal';
import { RunService } from '@toolloop/core/runs';
import {
  type Caller,
  CallerGuard,
  CurrentCaller,
  FormBody,
  ToolLoopExceptionFilter,
} from '@toolloop/http';
import { type EvalReport, isRecord, type Verdict } from '@toolloop/protocol';
import { atMost, object, optional, says, type ValueOf, words } from '@toolloop/protocol/routes';
import {
  CONSOLE_OPTIONS,
  type ConsoleOptions,
  type EvalResult,
  type VerdictKeeper,
} from './console-options.js';

/** The results of evaluations and the verdicts of people, as far as the application keeps them. */
@Injectable()
export class Evaluations {
  private readonly folder: ResultFolder | undefined;
  private readonly keeper: VerdictKeeper | undefined;

  constructor(
    @Inject(CONSOLE_OPTIONS) private readonly options: ConsoleOptions,
    private readonly operators: Operators,
    private readonly identity: ActorIdentity,
    private readonly runs: RunService,
    private readonly pending: PendingService,
  ) {
    const { results, verdicts } = options.evaluations ?? {};
    this.folder = typeof results === 'string' ? new ResultFolder(results) : undefined;
    this.keeper = typeof verdicts === 'string' ? new VerdictFile(verdicts) : verdicts;
  }

  /** The things that the application keeps, so that the page offers no others. */
  get kept(): { readonly results: boolean; readonly verdicts: boolean } {
    return {
      results: this.options.evaluations?.results !== undefined,
      verdicts: this.keeper !== undefined,
    };
  }

  /**
   * The results that a person may see. Those of a folder are of all tenants.
   *
   * @throws {OperatorError} For a folder, where they may not see the runs of all tenants.
   */
  async results(caller: Caller): Promise<readonly EvalResult[]> {
    const results = this.options.evaluations?.results;
    if (typeof results === 'function') return results(caller);
    if (!this.folder)
      throw new NotFoundException({
        code: 'not_found',
        message: 'This application keeps no results of evaluations.',
      });
    await this.operators.use(caller, 'runs', { everywhere: true, details: { evaluations: true } });
    return this.folder.results();
  }

  /**
   * The words of people about a run that the reader may see: of the run and of each approval the
   * last one.
   *
   * @throws {InvalidRequestError} For a run that they may not see.
   */
  async verdicts(runId: string, caller: Caller): Promise<readonly Verdict[]> {
    const { keeper } = this;
    if (!keeper) return [];
    await this.runs.get(runId, caller);
    const said = await keeper.of(runId, caller);
    return [...new Map(said.map((verdict) => [verdict.approvalId, verdict])).values()];
  }

  /**
   * Keeps what a person says about a run that they may see, or about an approval that they may see
   * and that was decided.
   *
   * @throws {InvalidRequestError} For a run that they may not see. A `PendingError` for such an
   *   approval.
   */
  async say(
    runId: string,
    { verdict, approvalId, why }: NewVerdict,
    caller: Caller,
  ): Promise<Verdict> {
    const { keeper } = this;
    if (!keeper)
      throw new NotFoundException({
        code: 'not_found',
        message: 'This application keeps no verdicts.',
      });
    await this.assertKnown(runId, approvalId, caller);
    const by = this.identity.idOf(caller.actor) ?? '';
    const told = {
      ...(approvalId !== undefined && { approvalId }),
      verdict,
      ...(why !== undefined && why.trim() !== '' && { why: why.trim() }),
    };
    const said: Verdict = { runId, ...told, by, at: new Date().toISOString() };
    await keeper.add(said, caller);
    return said;
  }

  private async assertKnown(
    runId: string,
    approvalId: string | undefined,
    caller: Caller,
  ): Promise<void> {
    if (approvalId === undefined) {
      await this.runs.get(runId, caller);
      return;
    }
    const { request, answer } = await this.pending.get(approvalId, caller);
    if (request.runId !== runId) throw new BadRequestException('The approval is of another run.');
    if (!answer)
      throw new ConflictException({
        code: 'not_decided',
        message: 'The approval was not decided yet.',
      });
  }
}

/** A result in a list of them: what its variants reached, without the runs. */
export interface ListedResult extends Omit<EvalResult, 'report'> {
  readonly name: string;
  readonly variants: EvalReport['variants'];
}

/** Far more than a person compares; the newest are read. */
const MOST_RESULTS = 200;
/** A report is read whole. */
const MOST_BYTES = 32 * 1024 * 1024;

/** A report as it was read, and of which file. */
interface ReadFile {
  readonly key: string;
  readonly report: EvalReport | undefined;
}

/**
 * The results of evaluations in a folder, where `toolloop eval --out` has written them. Each is
 * read when it is asked for, and again once it has changed.
 */
class ResultFolder {
  private readonly logger = new Logger('ToolLoopConsole');
  private readonly known = new Map<string, ReadFile>();

  constructor(private readonly folder: string) {}

  /** The results, the newest first. A folder that is not there has none. */
  async results(): Promise<readonly EvalResult[]> {
    const names = await readdir(this.folder).catch(() => []);
    const files = await Promise.all(
      names.filter((name) => name.endsWith('.json')).map((name) => this.fileOf(name)),
    );
    const newest = files
      .toSorted((one, other) => other.at.localeCompare(one.at))
      .slice(0, MOST_RESULTS);
    const read = await Promise.all(
      newest.map(async (file) => ({ file, report: await this.reportIn(file) })),
    );
    return read.flatMap(({ file: { id, at }, report }) => (report ? [{ id, at, report }] : []));
  }

  private async fileOf(name: string): Promise<{
    readonly id: string;
    readonly at: string;
    readonly path: string;
    readonly bytes: number;
  }> {
    const path = join(this.folder, name);
    const { mtime, size } = await stat(path);
    return { id: name.slice(0, -'.json'.length), at: mtime.toISOString(), path, bytes: size };
  }

  /** The report of a file; undefined where it is none, which the log says once. */
  private async reportIn({
    path,
    at,
    bytes,
  }: Awaited<ReturnType<ResultFolder['fileOf']>>): Promise<EvalReport | undefined> {
    const key = `${at} ${bytes}`;
    const known = this.known.get(path);
    if (known?.key === key) return known.report;
    const value = bytes > MOST_BYTES ? undefined : parseJson(await readFile(path, 'utf8'));
    const report = isReport(value) ? value : undefined;
    if (!report)
      this.logger.warn(
        `${path} is no report of an evaluation of version 1, or larger than ${MOST_BYTES} bytes.`,
      );
    this.known.set(path, { key, report });
    return report;
  }
}

function isReport(value: unknown): value is EvalReport & Record<string, unknown> {
  return (
    isRecord(value) &&
    value['version'] === 1 &&
    Array.isArray(value['runs']) &&
    Array.isArray(value['variants'])
  );
}

/**
 * A file of verdicts, one a line, as `toolloop eval verdict` writes it and `toolloop eval judge`
 * reads it.
 */
class VerdictFile implements VerdictKeeper {
  constructor(private readonly path: string) {}

  async add(verdict: Verdict): Promise<void> {
    await mkdir(dirname(this.path), { recursive: true });
    await appendFile(this.path, `${JSON.stringify(verdict)}\n`);
  }

  async of(wanted: string): Promise<readonly Verdict[]> {
    const text = await readFile(this.path, 'utf8').catch(() => '');
    return text.split('\n').flatMap((line) => {
      const value = line.includes(wanted) ? parseJson(line) : undefined;
      return isVerdict(value) && value.runId === wanted ? [value] : [];
    });
  }
}

function isVerdict(value: unknown): value is Verdict & Record<string, unknown> {
  return (
    isRecord(value) &&
    typeof value['runId'] === 'string' &&
    (value['verdict'] === 'right' || value['verdict'] === 'wrong')
  );
}

/** The word of a person about a run, or about one of its approvals. */
const NEW_VERDICT = object({
  verdict: says(words('right', 'wrong'), { enum: 'verdict must be "right" or "wrong"' }),
  approvalId: optional(atMost(256)),
  why: optional(
    says(atMost(1000), {
      type: 'why must be a text',
      maxLength: 'why must have at most 1000 characters',
    }),
  ),
});

type NewVerdict = ValueOf<typeof NEW_VERDICT>;

/**
 * The routes of the page for evaluations, below its own path: they are about files of the
 * application, which no other client needs.
 */
@Controller()
@UseGuards(CallerGuard)
@UseFilters(ToolLoopExceptionFilter)
export class EvaluationsController {
  constructor(private readonly evaluations: Evaluations) {}

  @Get('evaluations')
  async list(@CurrentCaller() caller: Caller): Promise<readonly ListedResult[]> {
    const results = await this.evaluations.results(caller);
    return results.map(({ id, at, report: { name, variants } }) => ({ id, at, name, variants }));
  }

  @Get('evaluations/:id')
  async get(@Param('id') wanted: string, @CurrentCaller() caller: Caller): Promise<EvalResult> {
    const found = (await this.evaluations.results(caller)).find(({ id }) => id === wanted);
    if (found) return found;
    throw new NotFoundException({ code: 'not_found', message: 'There is no such result.' });
  }

  @Get('verdicts/:runId')
  verdicts(
    @Param('runId') runId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<readonly Verdict[]> {
    return this.evaluations.verdicts(runId, caller);
  }

  @Post('verdicts/:runId')
  say(
    @Param('runId') runId: string,
    @Body(new FormBody(NEW_VERDICT)) verdict: NewVerdict,
    @CurrentCaller() caller: Caller,
  ): Promise<Verdict> {
    return this.evaluations.say(runId, verdict, caller);
  }
}
