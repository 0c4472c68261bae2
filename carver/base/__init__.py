"""What every layer uses: errors, element types, arrays, folders and the data that ships with carver."""
