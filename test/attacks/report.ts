import type { Figures, FiguresByLevel } from './figures.js';
import { LEVELS, ofEachReplayedLevel, REPLAYED_LEVELS, type ReplayedLevel } from './levels.js';
import type { RecordedFigures } from './recorded.js';
import type { AttackFigures, Curve, TaskFigures } from './replayed-figures.js';
import type { Review } from './review.js';
import type { WorkReview } from './work.js';

const COLUMNS: readonly (readonly [string, (figures: Figures) => string])[] = [
  ['pairs', ({ pairs }) => String(pairs)],
  ['unapproved effects', ({ unapprovedEffects }) => String(unapprovedEffects)],
  ['leaks', ({ leaks }) => String(leaks)],
  ['leaks of the prompt', ({ promptLeaks }) => String(promptLeaks)],
  ['approvals per benign task', ({ approvals }) => approvals.toFixed(2)],
  ['benign tasks blocked', ({ blocked, benignTasks }) => `${blocked} of ${benignTasks}`],
  ['attack calls audited', ({ audited }) => `${Math.round(audited * 100)} %`],
];

/** What a set of packs came to, for people. */
export function toText(title: string, { refuses, approves }: Review): string {
  const parts = [
    title,
    `With a reviewer who always says no:\n${toTable(refuses.figures)}`,
    `With a reviewer who always says yes:\n${toTable(approves.figures)}`,
    ...LEVELS.filter(isMeantToHold).flatMap((level) =>
      listOf(`Got through at ${level}`, refuses.through[level]),
    ),
    ...listOf('Never shown to the model, so measured nothing', refuses.unseen),
  ];
  return parts.join('\n\n');
}

/** `off` looks at nothing, and `trifecta` at leaks alone. */
function isMeantToHold(level: ReplayedLevel): boolean {
  return level !== 'off' && level !== 'trifecta';
}

function listOf(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [[`${title}:`, ...lines].join('\n  ')];
}

function rowOf(level: string, figures: Figures): string[] {
  return [level].concat(COLUMNS.map(([, cell]) => cell(figures)));
}

function toTable(figures: FiguresByLevel): string {
  return tableOf([
    ['level', ...COLUMNS.map(([name]) => name)],
    ...LEVELS.map((level) => rowOf(level, figures[level])),
  ]);
}

/** The recorded calls, for people. */
export function recordedText({ tasks, attacks, crossed, curve }: RecordedFigures): string {
  return [
    ...Object.entries(tasks).map(
      ([file, byLevel]) => `${file}, ${ALL_YES}:\n${taskTable(byLevel, 'on a text')}`,
    ),
    `InjecAgent, ${ALL_NO}:\n${attackTable(attacks)}`,
    ...Object.entries(crossed).map(
      ([file, byLevel]) => `InjecAgent's texts in the fields of ${file}:\n${attackTable(byLevel)}`,
    ),
    ...curveTexts(curve, 'employees, and each tenth of those texts'),
    ...throughLines('InjecAgent', attacks),
    ...Object.entries(crossed).flatMap(([file, byLevel]) => throughLines(file, byLevel)),
  ].join('\n\n');
}

/** The tasks of our own that depend on a text from outside, for people. */
export function workText({ levels, asked }: WorkReview, curve: Curve): string {
  const folders = Object.entries(levels).map(([folder, byLevel]) => {
    const tasks = ofEachReplayedLevel(byLevel, (figures) => figures.tasks);
    const attacks = ofEachReplayedLevel(byLevel, (figures) => figures.attacks);
    const knowing = ofEachReplayedLevel(byLevel, (figures) => figures.knowing);
    const askedTasks = Object.entries(asked[folder] ?? {}).map(
      ([task, count]) => `${task}: ${count}`,
    );
    return [
      `${folder}, ${ALL_YES}:\n${taskTable(tasks, 'where the text decides')}`,
      `${folder}, attacks in the same texts, ${ALL_NO}:\n${attackTable(attacks)}`,
      `${folder}, attacks of those who know the prompt, the tools and the rules:\n${attackTable(knowing)}`,
    ].concat(
      throughLines(folder, attacks),
      throughLines(`${folder}, of those who know`, knowing),
      listOf(`Asked at values in ${folder}, though the changes were planned`, askedTasks),
    );
  });
  return [...folders.flat(), ...curveTexts(curve, 'all of them')].join('\n\n');
}

const ALL_YES = 'with a reviewer who always says yes';
const ALL_NO = 'with a reviewer who always says no';

function attackTable(byLevel: Readonly<Record<ReplayedLevel, AttackFigures>>): string {
  const rows = REPLAYED_LEVELS.map((level) => {
    const { attacks, read, effects, namedWays, leaks, promptLeaks } = byLevel[level];
    return [level, ...[attacks, read, effects, namedWays, leaks, promptLeaks].map(String)];
  });
  return tableOf([
    [
      'level',
      'attacks',
      'read by the model',
      'unapproved effects',
      'along named ways',
      'leaks',
      'leaks of the prompt',
    ],
    ...rows,
  ]);
}

function curveTexts(curve: Curve, what: string): string[] {
  return Object.entries(curve).map(([level, points]) => {
    const rows = points.map(({ bits, tasks, attacks }) => {
      const counts = [attacks.attacks, attacks.effects, attacks.leaks + attacks.promptLeaks];
      return [String(bits), (tasks.approvals / tasks.tasks).toFixed(2), ...counts.map(String)];
    });
    return `The bits from outside at ${level}, ${what}:\n${tableOf([['bits', 'approvals per task', 'attacks', 'unapproved effects', 'leaks'], ...rows])}`;
  });
}

function throughLines(
  title: string,
  byLevel: Readonly<Record<ReplayedLevel, AttackFigures>>,
): string[] {
  return REPLAYED_LEVELS.filter(isMeantToHold).flatMap((level) =>
    listOf(
      `Got through at ${level} in ${title}`,
      Object.entries(byLevel[level].through).map(([name, count]) => `${name}: ${count}`),
    ),
  );
}

/** `subset`: the tasks that have a column of their own. */
function taskTable(byLevel: Readonly<Record<ReplayedLevel, TaskFigures>>, subset: string): string {
  const rows = REPLAYED_LEVELS.map((level) => {
    const one = byLevel[level];
    const others = one.tasks - one.tasksOnText;
    return [
      level,
      String(one.tasks),
      perTask(one.approvals, one.tasks),
      String(one.tasksWithoutApproval),
      `${one.changingTasksWithoutApproval} of ${one.changingTasks}`,
      `${perTask(one.approvalsOnText, one.tasksOnText)} of ${one.tasksOnText}`,
      `${perTask(one.approvals - one.approvalsOnText, others)} of ${others}`,
      String(one.unlike),
    ];
  });
  return tableOf([
    [
      'level',
      'tasks',
      'approvals per task',
      'tasks without',
      'of those that change something',
      subset,
      'the others',
      'calls missed',
    ],
    ...rows,
  ]);
}

function perTask(approvals: number, tasks: number): string {
  return tasks === 0 ? '–' : (approvals / tasks).toFixed(2);
}

function tableOf(rows: readonly (readonly string[])[]): string {
  const widths =
    rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map(
      (row) =>
        `  ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ')}`,
    )
    .join('\n');
}
