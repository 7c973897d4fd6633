import type { Figures, FiguresByLevel } from './figures.js';
import { LEVELS, type Level } from './levels.js';
import type { RecordedFigures } from './recorded.js';
import type { Review } from './review.js';

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
    ...LEVELS.filter(isMeantToHold).flatMap((level) => listOf(`Got through at ${level}`, refuses.through[level])),
    ...listOf('Never shown to the model, so measured nothing', refuses.unseen),
  ];
  return parts.join('\n\n');
}

/** `off` looks at nothing, and `trifecta` at leaks alone. */
function isMeantToHold(level: Level): boolean {
  return level !== 'off' && level !== 'trifecta';
}

function listOf(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [[`${title}:`, ...lines].join('\n  ')];
}

function rowOf(level: string, figures: Figures): string[] {
  return [level].concat(COLUMNS.map(([, cell]) => cell(figures)));
}

function toTable(figures: FiguresByLevel): string {
  return tableOf([['level', ...COLUMNS.map(([name]) => name)], ...LEVELS.map((level) => rowOf(level, figures[level]))]);
}

/** The recorded calls, for people. */
export function recordedText({ tasks, attacks, crossed, curve }: RecordedFigures): string {
  return [
    ...Object.entries(tasks).map(([file, byLevel]) => `${file}, with a reviewer who always says yes:\n${tableOf(taskRows(byLevel))}`),
    `InjecAgent, with a reviewer who always says no:\n${tableOf(attackRows(attacks))}`,
    ...Object.entries(crossed).map(([file, byLevel]) => `InjecAgent's texts in the fields of ${file}:\n${tableOf(attackRows(byLevel))}`),
    `The bits from outside that \`taint\` lets pass, with each tenth of those texts:\n${tableOf(curveRows(curve))}`,
    ...Object.entries(crossed).flatMap(([file, byLevel]) => throughLines(file, byLevel)),
  ].join('\n\n');
}

function attackRows(byLevel: RecordedFigures['attacks']): string[][] {
  const rows = LEVELS.map((level) => {
    const { attacks, read, effects, leaks, promptLeaks } = byLevel[level];
    return [level, ...[attacks, read, effects, leaks, promptLeaks].map(String)];
  });
  return [['level', 'attacks', 'read by the model', 'unapproved effects', 'leaks', 'leaks of the prompt'], ...rows];
}

function curveRows(curve: RecordedFigures['curve']): string[][] {
  const rows = curve.map(({ bits, tasks, approvals, attacks, effects, leaks }) => {
    return [String(bits), (approvals / tasks).toFixed(2), String(attacks), String(effects), String(leaks)];
  });
  return [['bits', 'approvals per task', 'attacks', 'unapproved effects', 'leaks'], ...rows];
}

function throughLines(file: string, byLevel: RecordedFigures['attacks']): string[] {
  return LEVELS.filter(isMeantToHold).flatMap((level) =>
    listOf(
      `Got through at ${level} in ${file}`,
      Object.entries(byLevel[level].through).map(([name, count]) => `${name}: ${count}`),
    ),
  );
}

function taskRows(byLevel: RecordedFigures['tasks'][string]): string[][] {
  const rows = LEVELS.map((level) => {
    const { tasks, approvals, tasksWithoutApproval, changingTasks, changingTasksWithoutApproval } = byLevel[level];
    const changing = `${changingTasksWithoutApproval} of ${changingTasks}`;
    return [level, String(tasks), (approvals / tasks).toFixed(2), String(tasksWithoutApproval), changing];
  });
  return [['level', 'tasks', 'approvals per task', 'tasks without', 'of those that change something'], ...rows];
}

function tableOf(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map(
      (row) =>
        `  ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ')}`,
    )
    .join('\n');
}
