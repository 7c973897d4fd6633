import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { TABLES, withTable } from './tables.js';

describe('the tables of types', () => {
  it.each(TABLES)('$page has every row of $marker, each with what it means', (table) => {
    const page = readFileSync(table.page, 'utf8');
    const current = withTable(page, table);
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(table.page, current);
    else expect(page).toBe(current);
    const rows = table.rows();
    expect(rows.length).toBeGreaterThan(2);
    expect(rows.filter(([key = '']) => !new RegExp(`^\\| ${key} \\|(?:.*\\|)? \\S.* \\|$`, 'm').test(current))).toEqual([]);
  });
});
