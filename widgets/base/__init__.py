"""The bases of the widgets: whole painted lines, a page that scrolls, a list with a cursor."""
