import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { lastCellsIn } from './table-cells.js';
import { TABLES, withTable } from './tables.js';

describe('the tables of types', () => {
  it.each(TABLES)('$page has every row of $marker, each with what it means', (table) => {
    const current = withTable(readFileSync(table.page, 'utf8'), table);
    if (process.env['UPDATE_PICTURES'] === '1') writeFileSync(table.page, current);
    expect(readFileSync(table.page, 'utf8')).toBe(current);
    const rows = table.rows();
    expect(rows.length).toBeGreaterThan(2);
    const cells = lastCellsIn(current);
    const unexplained = rows.filter(([key = '']) => !cells.get(key));
    expect(unexplained).toEqual([]);
  });
});
